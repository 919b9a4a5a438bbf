"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const watched = data.runs.map((run, index) => ({ ...run, index })).filter((run) => run.ratio);
  const ranks = data.names.map((_, index) => index + 1);
  const PRINT_WIDTH = 680; // pixels of an A4 page between its margins
  const MAX_DOTS = 9000; // more would make the slider slow
  const MAX_ROWS = 2000;
  const DASHES = ["solid", "dash", "dashdot", "dot"];
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up"];
  const CONFIG = {
    displaylogo: false,
    responsive: true,
    // A closed list: by default Plotly also offers to send the data to a server.
    showSendToCloud: false,
    modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]],
  };
  let printing = false;

  const byId = (id) => document.getElementById(id);
  const whole = (value) => value.toLocaleString("en-US");
  const known = (value) => value !== null && value !== undefined;
  // Plotly reads a little HTML in its texts; names are to be shown as they are.
  const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  function element(tag, text, className) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  // ---------------------------------------------------------------- figures

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    return {
      ink: colour("--ink"), soft: colour("--soft"), line: colour("--line"), page: colour("--page"),
      panel: colour("--panel"), runs: [0, 1, 2, 3, 4, 5].map((index) => colour(`--run-${index}`)),
    };
  }

  function lineStyle(run, colours) {
    return { color: colours.runs[run.index % 6], dash: DASHES[run.index % DASHES.length], width: 2.4 };
  }

  function baseLayout(colours) {
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: !printing,
      ...(printing ? { width: PRINT_WIDTH } : {}),
      font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: colours.ink },
      margin: { l: 58, r: 14, t: 44, b: 50 },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", itemwidth: 40 },
      hoverlabel: { bgcolor: colours.panel, bordercolor: colours.line, font: { color: colours.ink } },
      modebar: { color: colours.soft, activecolor: colours.ink, bgcolor: "rgba(0,0,0,0)", orientation: "v" },
    };
  }

  function axis(colours, rest) {
    return {
      gridcolor: colours.line, linecolor: colours.line, zeroline: false, ticks: "", automargin: true,
      ...rest, title: rest.title ? { text: rest.title, standoff: 8 } : undefined,
    };
  }

  // Plotly would put ticks at half a category where there are few.
  const wholeTicks = (count) => (count < 10 ? { dtick: 1 } : {});

  function ratioAxis(colours, highest, logarithmic, rest) {
    const range = logarithmic ? [-2.5, Math.log10(Math.max(2, highest * 1.3))] : [0, Math.max(1.15, highest * 1.08)];
    const ticks = logarithmic ? { tickvals: [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300] } : {};
    return axis(colours, { type: logarithmic ? "log" : "linear", range, ...ticks, ...rest });
  }

  function median(values) {
    values.sort((a, b) => a - b);
    const middle = values.length >> 1;
    return values.length % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  }

  // The same smoothing as in the PNG figures: running median, then running mean.
  function neighbours(values, half, index) {
    return values.slice(Math.max(0, index - half), index + half + 1).filter(known);
  }

  function smoothed(values) {
    const half = Math.floor(values.length / 80);
    const medians = values.map((_, index) => {
      const near = neighbours(values, half, index);
      return near.length ? median(near) : null;
    });
    return medians.map((value, index) => {
      const near = neighbours(medians, half, index);
      return known(value) ? near.reduce((sum, one) => sum + one, 0) / near.length : null;
    });
  }

  // Lines between the groups, where sorting by count keeps them apart.
  function groupMarks(colours) {
    const starts = data.groups.map((group, index) => [group, index]).filter(([group, index]) => group !== data.groups[index - 1]);
    if (starts.length > data.groupNames.length) return { shapes: [], annotations: [] };
    const ends = [...starts.slice(1).map(([, index]) => index), data.names.length];
    return {
      shapes: starts.slice(1).map(([, index]) => ({
        type: "line", x0: index + 0.5, x1: index + 0.5, y0: 0, y1: 1, yref: "paper",
        line: { color: colours.soft, width: 1 }, layer: "below",
      })),
      annotations: starts.map(([group, index], number) => ({
        text: plain(data.groupNames[group]), x: (index + ends[number] + 1) / 2, y: 1, yref: "paper", yanchor: "top",
        showarrow: false, font: { color: colours.soft, size: 12 }, bgcolor: colours.page, opacity: 0.8,
      })),
    };
  }

  function balanceLine(colours, rest) {
    return { type: "line", xref: "paper", x0: 0, x1: 1, y0: 1, y1: 1, layer: "below", line: { color: colours.soft, width: 1, dash: "dot" }, ...rest };
  }

  function highestRatio() {
    const lines = watched.map((run) => smoothed(run.final).filter(known));
    return Math.max(1, ...lines.map((line) => Math.max(0, ...line)));
  }

  const highest = highestRatio();

  function hoverTexts() {
    return data.names.map((name, index) => {
      const count = data.counts ? `, ${whole(data.counts[index])} training samples` : "";
      return plain(`${name} (${data.groupNames[data.groups[index]]}${count})`);
    });
  }

  function ratioTraces(stepIndex, colours, logarithmic) {
    const texts = hoverTexts();
    const withDots = watched.length * data.names.length <= MAX_DOTS;
    const [size, opacity] = data.names.length > 100 ? [4, 0.3] : [7, 0.7]; // many make a cloud, few must be seen
    return watched.flatMap((run) => {
      const values = run.ratio[stepIndex] || data.names.map(() => null);
      const colour = colours.runs[run.index % 6];
      const hovertemplate = `%{text}<br>${plain(run.name)}: %{customdata:.3g}<extra></extra>`;
      const dots = {
        // Zero is drawn at the foot of a logarithmic axis.
        x: ranks, y: logarithmic ? values.map((value) => (known(value) ? Math.max(value, 0.0033) : null)) : values,
        customdata: values, text: texts, hovertemplate, mode: "markers", showlegend: false, legendgroup: run.name,
        marker: { color: colour, size, opacity, symbol: SYMBOLS[run.index % SYMBOLS.length] },
      };
      const line = {
        x: ranks, y: smoothed(values), mode: "lines", name: plain(run.name), legendgroup: run.name,
        line: lineStyle(run, colours), ...(withDots ? { hoverinfo: "skip" } : { customdata: values, text: texts, hovertemplate }),
      };
      return withDots ? [dots, line] : [line];
    });
  }

  function drawRatio() {
    const colours = theme();
    const logarithmic = byId("logarithmic").checked;
    const stepIndex = Number(byId("step").value);
    const { shapes, annotations } = groupMarks(colours);
    const order = data.counts ? "most frequent first" : "most positive gradient first";
    const layout = {
      ...baseLayout(colours), height: printing ? 330 : 440, uirevision: logarithmic, hovermode: "closest",
      xaxis: axis(colours, { title: `${whole(data.names.length)} categories, ${order}`, range: [0, data.names.length + 1], showgrid: false, ...wholeTicks(data.names.length) }),
      yaxis: ratioAxis(colours, highest, logarithmic, { title: "gradient ratio" }),
      shapes: [...shapes, balanceLine(colours)], annotations,
    };
    byId("step-shown").textContent = `${whole(data.steps[stepIndex])} of ${whole(data.steps[data.steps.length - 1])}`;
    Plotly.react("ratio-plot", ratioTraces(stepIndex, colours, logarithmic), layout, CONFIG);
  }

  const axisName = (letter, number) => `${letter}axis${number ? number + 1 : ""}`;
  const axisRef = (letter, number) => `${letter}${number ? number + 1 : ""}`;

  function drawTraining() {
    const colours = theme();
    const groups = data.groupNames;
    const stacked = !printing && byId("training-plot").clientWidth < 640;
    const values = watched.flatMap((run) => run.curves.flat().filter(known));
    const top = Math.max(1, ...values);
    const logarithmic = top > 3;
    const height = printing ? 260 : stacked ? 230 * groups.length : 320;
    byId("training-plot").style.height = `${height}px`;
    const layout = {
      ...baseLayout(colours), height, hovermode: "x unified",
      grid: { rows: stacked ? groups.length : 1, columns: stacked ? 1 : groups.length, pattern: "independent", xgap: 0.14, ygap: 0.3 },
      margin: { l: 58, r: 14, t: 70, b: 50 },
      legend: { ...baseLayout(colours).legend, y: stacked ? 1.05 : 1.12 },
      shapes: [], annotations: [],
    };
    groups.forEach((group, number) => {
      const last = !stacked || number === groups.length - 1;
      layout[axisName("x", number)] = axis(colours, { title: last ? "step" : "", showgrid: false, rangemode: "tozero", nticks: 4 });
      layout[axisName("y", number)] = ratioAxis(colours, top, logarithmic, { title: !stacked && number ? "" : "median ratio" });
      const [x, y] = [axisRef("x", number), axisRef("y", number)];
      layout.shapes.push(balanceLine(colours, { xref: `${x} domain`, yref: y }));
      layout.annotations.push({ text: plain(group), xref: `${x} domain`, yref: `${y} domain`, x: 0, y: 1.02, yanchor: "bottom", showarrow: false });
    });
    const traces = watched.flatMap((run) => groups.map((_, number) => ({
      x: run.curveSteps, y: run.curves[number].map((value) => (logarithmic && value === 0 ? null : value)), mode: "lines",
      name: plain(run.name), legendgroup: run.name, showlegend: number === 0,
      xaxis: axisRef("x", number), yaxis: axisRef("y", number), line: lineStyle(run, colours), hovertemplate: "%{y:.3g}",
    })));
    Plotly.react("training-plot", traces, layout, CONFIG);
  }

  function drawFigures() {
    drawRatio();
    drawTraining();
  }

  // ---------------------------------------------------------------- slider

  let timer = null;

  function stop() {
    clearInterval(timer);
    timer = null;
    byId("play").textContent = "Play";
  }

  function advance() {
    const slider = byId("step");
    if (Number(slider.value) >= Number(slider.max)) return stop();
    slider.value = Number(slider.value) + 1;
    drawRatio();
  }

  function play() {
    if (timer) return stop();
    const slider = byId("step");
    if (slider.value === slider.max) slider.value = 0;
    drawRatio();
    byId("play").textContent = "Stop";
    timer = setInterval(advance, 450);
  }

  function startFigures() {
    const slider = byId("step");
    slider.max = data.steps.length - 1;
    slider.value = slider.max;
    byId("logarithmic").checked = highest > 3;
    byId("play").disabled = data.steps.length < 2;
    slider.addEventListener("input", () => { stop(); drawRatio(); });
    byId("play").addEventListener("click", play);
    byId("logarithmic").addEventListener("change", drawRatio);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawFigures);
    matchMedia("(max-width: 700px)").addEventListener("change", drawTraining);
    addEventListener("beforeprint", () => setPrinting(true));
    addEventListener("afterprint", () => setPrinting(false));
    drawFigures();
  }

  function setPrinting(now) {
    printing = now;
    if (now) document.documentElement.dataset.theme = "light";
    else delete document.documentElement.dataset.theme;
    drawFigures();
  }

  // ---------------------------------------------------------------- table of categories

  const percent = (value) => (100 * value).toFixed(1);
  const points = (value) => {
    const size = Math.abs(value).toFixed(1);
    return (size === "0.0" ? "" : value < 0 ? "−" : "+") + size;
  };
  // Of the exact values: the difference of rounded percentages may be 0.1 off.
  const difference = (run, index) =>
    known(run.metric[index]) && known(data.runs[0].metric[index])
      ? 100 * (run.metric[index] - data.runs[0].metric[index]) : null;

  function ratioCell(cell, value) {
    cell.classList.add("ratio");
    cell.classList.toggle("low", value < data.starvingRatio);
    cell.style.setProperty("--share", Math.min(value, 1));
  }

  function wonCell(cell, value) {
    cell.classList.add("ratio");
    cell.classList.toggle("low", value < data.starving);
    cell.style.setProperty("--share", value);
  }

  function differenceCell(cell, value) {
    if (points(value) !== "0.0") cell.classList.add(value > 0 ? "up" : "down");
  }

  function columnsOfRun(run, runIndex) {
    const found = [];
    if (run.won) found.push({ label: "won", title: "own training samples won, %", value: (i) => run.won[i], show: (v) => (100 * v).toFixed(0), dress: wonCell });
    if (run.final) found.push({ label: "ratio", value: (i) => run.final[i], show: shortRatio, dress: ratioCell });
    if (run.metric) found.push({ label: data.metric, value: (i) => run.metric[i], show: percent });
    if (run.metric && runIndex && data.runs[0].metric) {
      found.push({ label: "±", title: `${data.metric} against ${data.runs[0].name}`, value: (i) => difference(run, i), show: points, dress: differenceCell });
    }
    if (found.length) Object.assign(found[0], { starts: true });
    return found.map((column) => ({ ...column, runIndex }));
  }

  const shortRatio = (value) => (value >= 10 ? value.toFixed(0) : value.toFixed(value < 0.1 ? 3 : 2));

  const columns = [
    { label: "category", value: (i) => data.names[i], text: true },
    { label: "group", value: (i) => data.groups[i], show: (v) => data.groupNames[v], text: true },
    ...(data.counts ? [{ label: "count", title: "training samples", value: (i) => data.counts[i], show: whole }] : []),
    ...data.runs.flatMap(columnsOfRun),
  ];
  const table = byId("category-table");
  const rows = []; // made when first shown
  let sorting = { column: null, descending: false };
  let showAll = false;

  function makeRow(index) {
    const row = element("tr");
    columns.forEach((column, number) => {
      const value = column.value(index);
      const text = known(value) ? (column.show ? column.show(value) : value) : "–";
      const cell = element(number ? "td" : "th", text);
      if (!number) cell.scope = "row";
      cell.classList.toggle("text", Boolean(column.text));
      cell.classList.toggle("starts", Boolean(column.starts));
      if (column.dress && known(value)) column.dress(cell, value);
      row.append(cell);
    });
    return row;
  }

  function compareBy(column, descending) {
    return (a, b) => {
      const [one, other] = [column.value(a), column.value(b)];
      if (!known(one) || !known(other)) return Number(known(other)) - Number(known(one));
      const order = typeof one === "string" ? one.localeCompare(other) : one - other;
      return descending ? -order : order;
    };
  }

  function matching() {
    const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const group = byId("group").value;
    return data.names.map((_, index) => index).filter((index) =>
      (group === "" || data.groups[index] === Number(group)) &&
      words.every((word) => data.names[index].toLowerCase().includes(word)));
  }

  function fillTable() {
    const found = matching();
    if (sorting.column) found.sort(compareBy(sorting.column, sorting.descending));
    const shown = showAll ? found : found.slice(0, MAX_ROWS);
    const body = document.createDocumentFragment();
    for (const index of shown) body.append(rows[index] ??= makeRow(index));
    table.tBodies[0].replaceChildren(body);
    byId("more").hidden = shown.length === found.length;
    byId("shown").textContent = `${whole(found.length)} of ${whole(data.names.length)} categories`;
  }

  function sortBy(column, heading) {
    const again = sorting.column === column;
    // Numbers from the largest, names from A.
    sorting = { column, descending: again ? !sorting.descending : !column.text };
    for (const other of table.tHead.querySelectorAll("[aria-sort]")) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", sorting.descending ? "descending" : "ascending");
    fillTable();
  }

  function makeHead() {
    const [runRow, labelRow] = [element("tr"), element("tr")];
    const common = columns.filter((column) => column.runIndex === undefined);
    const corner = element("td");
    corner.colSpan = common.length;
    runRow.append(corner);
    data.runs.forEach((run, runIndex) => {
      const own = columns.filter((column) => column.runIndex === runIndex);
      if (!own.length) return;
      const heading = element("th", undefined, "run starts");
      heading.append(element("span", undefined, `swatch run-${runIndex % 6}`), run.name);
      Object.assign(heading, { colSpan: own.length, scope: "colgroup" });
      runRow.append(heading);
    });
    for (const column of columns) labelRow.append(makeHeading(column));
    table.tHead.append(runRow, labelRow);
  }

  function makeHeading(column) {
    const heading = element("th", undefined, column.starts ? "starts" : "");
    const button = element("button", column.label);
    button.type = "button";
    button.title = column.title ? `${column.title}: sort` : "sort";
    button.addEventListener("click", () => sortBy(column, heading));
    heading.scope = "col";
    heading.append(button);
    return heading;
  }

  function startTable() {
    data.groupNames.forEach((name, index) => {
      const option = element("option", name);
      option.value = index;
      byId("group").append(option);
    });
    makeHead();
    fillTable();
    byId("filter").addEventListener("input", fillTable);
    byId("group").addEventListener("change", fillTable);
    byId("more").addEventListener("click", () => { showAll = true; fillTable(); });
  }

  startTable();
  if (watched.length && data.steps.length) startFigures();
})();
