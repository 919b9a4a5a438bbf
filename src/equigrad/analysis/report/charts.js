// Charts of dots and lines as SVG. Colours come from the style sheet: dark mode and print need no script.

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { left: 62, right: 12, top: 10, bottom: 42 };
const DASHES = ["", "8 4", "8 3 2 3", "2 3"];
const NEAR = 24; // pixels from the pointer to a point that is described
const known = (value) => value !== null && value !== undefined;
const whole = (value) => value.toLocaleString("en-US");

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function shape(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// About `count` round numbers from low to high.
function linearTicks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  const number = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: number }, (_, index) => Number(((first + index) * step).toPrecision(12)));
}

function logTicks(low, high) {
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const factors = last - first > 3 ? [1] : [1, 2, 5];
  const powers = Array.from({ length: last - first + 1 }, (_, index) => first + index);
  const all = powers.flatMap((power) => factors.map((factor) => Number((factor * 10 ** power).toPrecision(2))));
  return all.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
}

// From a value to a pixel; values outside stop at the edge.
function scaleOf({ low, high, logarithmic }, start, end) {
  const of = logarithmic ? Math.log : (value) => value;
  const inside = (value) => Math.min(Math.max(value, low), high);
  return (value) => start + ((of(inside(value)) - of(low)) / (of(high) - of(low) || 1)) * (end - start);
}

const pixel = (value) => value.toFixed(1);

function linePath(points) {
  let path = "";
  let pen = "M";
  for (const [x, y] of points) {
    path += known(y) ? `${pen}${pixel(x)} ${pixel(y)}` : "";
    pen = known(y) ? "L" : "M";
  }
  return path;
}

// Each dot is a line of no length with round ends: one element for thousands of them.
const dotPath = (points) => points.filter(([, y]) => known(y)).map(([x, y]) => `M${pixel(x)} ${pixel(y)}h0`).join("");

// Draw a chart into an element.
//   x, y     {low, high, label, logarithmic, ticks, show}: show makes the text of a tick
//   series   [{run, points: [[x, y], …], line: [[x, y], …], dots: size or 0, describe: (index) => text}]
//   marks    [{x, name, from, to}]: lines between groups, and between what to write their names, if there is room
//   balance  [[x1, y1], [x2, y2]]: a dotted line to compare with
function drawChart(host, { x, y, series, marks = [], balance, height = 320 }) {
  const width = Math.max(host.clientWidth, 240);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  const [toX, toY] = [scaleOf(x, MARGIN.left, width - MARGIN.right), scaleOf(y, height - MARGIN.bottom, MARGIN.top)];
  const place = (points) => points.map(([a, b]) => [toX(a), known(b) ? toY(b) : null]);
  drawAxes(svg, { x, y, toX, toY, width, height });
  drawMarks(svg, marks, toX, height);
  if (balance) svg.append(shape("path", { d: linePath(place(balance)), class: "balance" }));
  for (const { run, points, line, dots } of series) {
    const colour = `run-${run % 6}`;
    if (dots) svg.append(shape("path", { d: dotPath(place(points)), class: `dots ${colour}`, "stroke-width": dots, "stroke-opacity": dots > 5 ? 0.75 : 0.3 }));
    svg.append(shape("path", { d: linePath(place(line ?? points)), class: `line ${colour}`, "stroke-dasharray": DASHES[run % DASHES.length] }));
  }
  host.replaceChildren(svg, element("div", undefined, "tip"));
  listen(host, svg, series, place, width);
}

function drawAxes(svg, { x, y, toX, toY, width, height }) {
  const bottom = height - MARGIN.bottom;
  const xTicks = x.ticks ?? linearTicks(x.low, x.high, Math.min(8, width / 90));
  const yTicks = y.ticks ?? (y.logarithmic ? logTicks(y.low, y.high) : linearTicks(y.low, y.high, height / 60));
  for (const tick of yTicks) {
    svg.append(shape("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: toY(tick), y2: toY(tick), class: "grid" }));
    svg.append(shape("text", { x: MARGIN.left - 7, y: toY(tick) + 4, "text-anchor": "end" }, (y.show ?? String)(tick)));
  }
  for (const tick of xTicks) {
    svg.append(shape("text", { x: toX(tick), y: bottom + 17, "text-anchor": "middle", class: "x-tick" }, (x.show ?? whole)(tick)));
  }
  svg.append(shape("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: bottom, y2: bottom, class: "axis" }));
  svg.append(shape("text", { x: (MARGIN.left + width - MARGIN.right) / 2, y: height - 6, "text-anchor": "middle", class: "label" }, x.label));
  const middle = (MARGIN.top + bottom) / 2;
  svg.append(shape("text", { transform: `translate(13 ${middle}) rotate(-90)`, "text-anchor": "middle", class: "label" }, y.label));
}

function drawMarks(svg, marks, toX, height) {
  for (const { x, name, from, to } of marks) {
    if (known(x)) svg.append(shape("line", { x1: toX(x), x2: toX(x), y1: MARGIN.top, y2: height - MARGIN.bottom, class: "mark" }));
    if (toX(to) - toX(from) < 7 * name.length) continue;
    const middle = (toX(from + 0.5) + toX(to + 0.5)) / 2;
    svg.append(shape("text", { x: middle, y: height - MARGIN.bottom - 8, "text-anchor": "middle", class: "group" }, name));
  }
}

// Describe the point nearest to the pointer.
function listen(host, svg, series, place, width) {
  const placed = series.map(({ points }) => place(points));
  const tip = host.querySelector(".tip");
  const ring = shape("circle", { r: 6, class: "ring", visibility: "hidden" });
  svg.append(ring);
  svg.addEventListener("pointerleave", () => hide());
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const factor = width / box.width;
    const found = nearest(placed, (event.clientX - box.left) * factor, (event.clientY - box.top) * factor);
    return found ? show(found, factor) : hide();
  });

  function hide() {
    tip.classList.remove("shown");
    ring.setAttribute("visibility", "hidden");
  }

  function show({ number, index, point: [x, y] }, factor) {
    for (const [name, value] of Object.entries({ cx: x, cy: y, visibility: "visible" })) ring.setAttribute(name, value);
    tip.textContent = series[number].describe(index);
    tip.classList.add("shown");
    const left = Math.min(x / factor + 14, host.clientWidth - tip.offsetWidth);
    tip.style.transform = `translate(${Math.max(left, 0)}px, ${Math.max(y / factor - tip.offsetHeight - 10, 0)}px)`;
  }
}

function nearest(placed, x, y) {
  let found = null;
  let least = NEAR ** 2;
  placed.forEach((points, number) => points.forEach((point, index) => {
    if (!known(point[1])) return;
    const distance = (point[0] - x) ** 2 + (point[1] - y) ** 2;
    if (distance < least) [least, found] = [distance, { number, index, point }];
  }));
  return found;
}

function median(values) {
  values.sort((a, b) => a - b);
  const middle = values.length >> 1;
  return values.length % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Points of the running median, then running mean, each over a 40th of the categories, as in the PNG figures; at least
// over three. Of thousands of categories only some hundred points are computed, which the eye cannot tell apart.
function smoothed(values) {
  const half = Math.max(Math.floor(values.length / 80), values.length > 12 ? 1 : 0);
  const stride = Math.max(1, Math.floor(half / 4));
  const near = (all, index, reach) => all.slice(Math.max(0, index - reach), index + reach + 1).filter(known);
  const medians = [];
  for (let index = 0; index < values.length; index += stride) {
    const found = near(values, index, half);
    medians.push(found.length ? median(found) : null);
  }
  return medians.map((value, index) => {
    const found = near(medians, index, Math.round(half / stride));
    const mean = found.reduce((sum, one) => sum + one, 0) / found.length;
    return [index * stride + 1, known(value) ? mean : null];
  });
}
