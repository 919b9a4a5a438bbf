// Fills the figures and the table of the page from its data.

const data = JSON.parse(document.getElementById("data").textContent);
const MAX_DOTS = 9000; // more would make the slider slow
const hidden = new Set(); // runs that a click on their name in a legend removes
const drawings = []; // of the figures on the page
const byId = (id) => document.getElementById(id);
const percentTick = (value) => `${value} %`;
const fewDigits = (value) => String(Number(value.toPrecision(3)));
const shownRuns = (field) => data.runs.map((run, index) => ({ ...run, index })).filter((run) => run[field] && !hidden.has(run.index));

// Draw a figure when it has a width, and again when that changes: on a turned phone, or in details that are opened.
function addFigure(host, draw) {
  let width = 0;
  const redraw = () => { if (host.clientWidth) draw(host); };
  drawings.push(redraw);
  new ResizeObserver(() => {
    if (host.clientWidth !== width) redraw();
    width = host.clientWidth;
  }).observe(host);
}

function categoryAxis() {
  const order = data.counts ? "most frequent first" : "most positive gradient first";
  const count = data.names.length;
  const ticks = count < 10 ? data.names.map((_, index) => index + 1) : undefined;
  return { low: 0.5, high: count + 0.5, label: `${whole(count)} categories, ${order}`, ticks };
}

// Lines between the groups, where sorting by count keeps them apart.
function groupMarks() {
  const starts = data.groups.map((group, index) => [group, index]).filter(([group, index]) => group !== data.groups[index - 1]);
  if (starts.length > data.groupNames.length) return [];
  const ends = [...starts.slice(1).map(([, index]) => index), data.names.length];
  return starts.map(([group, index], number) => ({ x: index ? index + 0.5 : null, from: index, to: ends[number], name: data.groupNames[group] }));
}

function describeCategory(index, run, text) {
  const count = data.counts ? `, ${whole(data.counts[index])} training samples` : "";
  const metric = run.metric && known(run.metric[index]) ? `, ${data.metric} ${run.metric[index].toFixed(1)} %` : "";
  return `${data.names[index]} (${data.groupNames[data.groups[index]]}${count})\n${run.name}: ${text}${metric}`;
}

// ---------------------------------------------------------------- values of every category at a step

const QUANTITIES = {
  won: {
    axis: () => ({ low: 0, high: 100, label: "own samples won", show: percentTick }),
    balance: () => undefined,
    describe: (value) => `wins ${value} % of its samples`,
  },
  ratio: {
    axis: (highest) => (byId("logarithmic").checked
      ? { low: 0.003, high: Math.max(2, highest * 1.3), label: "gradient ratio", logarithmic: true, show: fewDigits }
      : { low: 0, high: Math.max(1.15, highest * 1.08), label: "gradient ratio", show: fewDigits }),
    balance: ({ low, high }) => [[low, 1], [high, 1]],
    describe: (value) => `ratio ${fewDigits(value)}`,
  },
};

function highestRatio() {
  const lines = data.runs.filter((run) => run.ratio).map((run) => smoothed(run.ratio[run.ratio.length - 1]).map(([, value]) => value).filter(known));
  return Math.max(1, ...lines.map((line) => Math.max(0, ...line)));
}

function startCategories(quantity) {
  const { axis, balance, describe } = QUANTITIES[quantity];
  const slider = byId(`${quantity}-step`);
  const highest = quantity === "ratio" ? highestRatio() : 0;
  const dots = data.names.length > 100 ? 4 : 7; // many make a cloud, few must be seen
  const withDots = data.names.length * data.runs.length <= MAX_DOTS;
  const x = categoryAxis();
  const points = (values) => values.map((value, index) => [index + 1, value]);

  function draw(host) {
    const step = Number(slider.value);
    const series = shownRuns(quantity).map((run) => {
      const values = run[quantity][step] ?? data.names.map(() => null);
      return {
        run: run.index, dots: withDots ? dots : 0, points: points(values), line: smoothed(values),
        describe: (index) => describeCategory(index, run, describe(values[index])),
      };
    });
    byId(`${quantity}-shown`).textContent = `step ${whole(data.steps[step])} of ${whole(data.steps[data.steps.length - 1])}`;
    drawChart(host, { x, y: axis(highest), series, marks: groupMarks(), balance: balance(x), height: host.clientWidth < 560 ? 300 : 400 });
  }

  const host = byId(`${quantity}-plot`);
  const caption = host.nextElementSibling;
  if (!withDots) caption.textContent = caption.textContent.replace("Dots: one category each,", "Categories are");
  addFigure(host, draw);
  startSlider(quantity, slider, () => draw(host));
  if (quantity === "ratio") {
    byId("logarithmic").checked = highest > 3;
    byId("logarithmic").addEventListener("change", () => draw(host));
  }
}

function startSlider(quantity, slider, draw) {
  const button = byId(`${quantity}-play`);
  let timer = null;

  function stop() {
    clearInterval(timer);
    timer = null;
    button.textContent = "Play";
  }

  function advance() {
    if (Number(slider.value) >= Number(slider.max)) return stop();
    slider.value = Number(slider.value) + 1;
    draw();
  }

  slider.max = data.steps.length - 1;
  slider.value = slider.max;
  button.disabled = data.steps.length < 2;
  slider.addEventListener("input", () => { stop(); draw(); });
  button.addEventListener("click", () => {
    if (timer) return stop();
    if (slider.value === slider.max) slider.value = 0;
    draw();
    button.textContent = "Stop";
    timer = setInterval(advance, 350);
  });
}

// ---------------------------------------------------------------- a small chart for each group, or for each title

function addPanels(id, titles, specification) {
  titles.forEach((title, number) => {
    const [panel, plot] = [element("div", undefined, "panel"), element("div", undefined, "plot")];
    panel.append(element("h4", title), plot);
    byId(id).append(panel);
    addFigure(plot, (host) => drawChart(host, { height: 230, ...specification(number) }));
  });
}

const span = (series, axis) => series.flatMap(({ points }) => points.map((point) => point[axis])).filter(known);

function stepAxis(series) {
  const high = Math.max(1, ...span(series, 0));
  return { low: 0, high, label: "step", ticks: high < 6 ? Array.from({ length: high + 1 }, (_, step) => step) : undefined };
}

function curves(field, number, text) {
  return shownRuns(field).map((run) => {
    const points = run[field][number].map((value, index) => [run.curveSteps[index], value]);
    return { run: run.index, points, describe: (index) => `${run.name}, step ${whole(points[index][0])}: ${text(points[index][1])}` };
  });
}

function wonPanel(number) {
  const series = curves("wonCurves", number, (value) => `${value} % won`);
  return { x: stepAxis(series), y: { low: 0, high: 100, label: "mean won", show: percentTick }, series };
}

function ratioPanel(number) {
  const series = curves("ratioCurves", number, (value) => `ratio ${fewDigits(value)}`);
  const all = shownRuns("ratioCurves").flatMap((run) => run.ratioCurves.flat()).filter(known);
  const top = Math.max(1, ...all);
  const x = stepAxis(series);
  const y = { low: top > 3 ? 0.01 : 0, high: top * 1.08, label: "median ratio", logarithmic: top > 3, show: fewDigits };
  return { x, y, series, balance: [[0, 1], [x.high, 1]] };
}

function courseSeries(field, text) {
  return shownRuns(field).map((run) => ({
    run: run.index, points: run[field], describe: (index) => `${run.name}, step ${whole(run[field][index][0])}: ${text(run[field][index][1])}`,
  }));
}

function lossPanel() {
  const series = courseSeries("loss", fewDigits);
  const values = span(series, 1);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const logarithmic = low > 0 && high > 5 * low;
  const y = { low: logarithmic ? low : Math.min(0, low), high: high > low ? high : low + 1, label: "loss", logarithmic, show: fewDigits };
  return { x: stepAxis(series), y, series };
}

function metricPanel() {
  const series = courseSeries("evaluations", (value) => `${value.toFixed(1)} %`);
  return { x: stepAxis(series), y: { low: 0, high: 100, label: data.headline, show: percentTick }, series };
}

function reliabilityPanel(number) {
  const series = shownRuns("reliability").map((run) => {
    const bins = run.reliability[number];
    const describe = (index) => `${run.name}: ${whole(bins[index][2])} images with confidence ${bins[index][0]} %, ${bins[index][1]} % right`;
    return { run: run.index, points: bins.map(([confidence, right]) => [confidence, right]), dots: 6, describe };
  });
  const axis = (label) => ({ low: 0, high: 100, label, show: percentTick, ticks: [0, 25, 50, 75, 100] });
  return { x: axis("confidence"), y: axis("right"), series, balance: [[0, 0], [100, 100]] };
}

// ---------------------------------------------------------------- legends, theme, start

function startLegends() {
  const legends = [...document.querySelectorAll("[data-legend]")];
  const buttons = [];
  for (const legend of legends) {
    data.runs.forEach((run, index) => {
      if (!run[legend.dataset.legend]) return;
      const button = element("button", undefined, `run-${index % 6}`);
      button.type = "button";
      button.title = "show or hide this run";
      const line = shape("svg", { viewBox: "0 0 28 10", "aria-hidden": "true" });
      line.append(shape("path", { d: "M0 5H28", class: `line run-${index % 6}`, "stroke-dasharray": DASHES[index % DASHES.length] }));
      button.append(line, element("bdi", run.name));
      button.addEventListener("click", () => toggle(index));
      legend.append(button);
      buttons.push([button, index]);
    });
  }

  function toggle(index) {
    if (!hidden.delete(index)) hidden.add(index);
    for (const [button, own] of buttons) button.setAttribute("aria-pressed", !hidden.has(own));
    for (const draw of drawings) draw();
  }

  for (const [button] of buttons) button.setAttribute("aria-pressed", "true");
}

function startTheme() {
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  byId("theme").addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; });
}

const has = (field) => data.runs.some((run) => run[field]);

startTheme();
startTable(data);
startLegends();
if (has("won") && data.steps.length) {
  startCategories("won");
  addPanels("won-training", data.groupNames, wonPanel);
}
if (has("ratio") && data.steps.length) {
  startCategories("ratio");
  addPanels("ratio-training", data.groupNames, ratioPanel);
}
if (has("loss")) addPanels("course", ["Loss"], lossPanel);
if (has("evaluations")) addPanels("course", [`${data.headline} during training`], metricPanel);
if (has("reliability")) addPanels("reliability", data.groupNames, reliabilityPanel);
