// The table of all categories: sorted and filtered, with only the rows in view in the document.

const ROW_HEIGHT = 30; // pixels, as in the style sheet
const EXTRA_ROWS = 12; // above and below those in view
const NUM_PRINTED = 40;

function startTable(data) {
  const byId = (id) => document.getElementById(id);
  const table = byId("category-table");
  const frame = table.parentElement;
  const columns = columnsOf(data);
  let sorting = { column: null, descending: false };
  let shown = [];
  let drawn = "";

  function fill() {
    shown = matching(data, byId("filter").value, byId("group").value);
    if (sorting.column) shown.sort(orderBy(sorting.column, sorting.descending));
    byId("shown").textContent = `${whole(shown.length)} of ${whole(data.names.length)} categories`;
    frame.scrollTop = 0;
    drawn = "";
    drawRows();
  }

  function drawRows(count = Math.ceil(frame.clientHeight / ROW_HEIGHT)) {
    const above = Math.floor(frame.scrollTop / ROW_HEIGHT);
    // An even number of rows is left out above, so that the stripes stay where they are.
    const first = Math.max(0, 2 * Math.floor((above - EXTRA_ROWS) / 2));
    const last = Math.min(shown.length, above + count + EXTRA_ROWS);
    if (drawn === `${first} ${last}`) return;
    drawn = `${first} ${last}`;
    const rows = shown.slice(first, last).map((index, number) => makeRow(columns, index, first + number));
    table.tBodies[0].replaceChildren(gap(first), ...rows, gap(shown.length - last));
  }

  function sortBy(column, heading) {
    const again = sorting.column === column;
    // Numbers from the largest, names from A.
    sorting = { column, descending: again ? !sorting.descending : !column.text };
    for (const other of table.tHead.querySelectorAll("[aria-sort]")) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", sorting.descending ? "descending" : "ascending");
    fill();
  }

  for (const [index, name] of data.groupNames.entries()) {
    const option = element("option", name);
    option.value = index;
    byId("group").append(option);
  }
  table.tHead.append(...headRows(data, columns, sortBy));
  table.setAttribute("aria-rowcount", data.names.length + 2);
  byId("filter").addEventListener("input", fill);
  byId("group").addEventListener("change", fill);
  frame.addEventListener("scroll", () => drawRows(), { passive: true });
  addEventListener("resize", () => drawRows());
  addEventListener("beforeprint", () => { frame.scrollTop = 0; drawRows(NUM_PRINTED); });
  addEventListener("afterprint", () => drawRows());
  fill();
}

// All numbers come rounded, and as the rest of the page shows them.
function columnsOf(data) {
  const oneDigit = (value) => value.toFixed(1);
  const signed = (value) => (value > 0 ? "+" : value < 0 ? "−" : "") + Math.abs(value).toFixed(1);
  const ratio = (value) => (value >= 10 ? value.toFixed(0) : value.toFixed(value < 0.1 ? 3 : 2));
  const bar = (limit, full) => (cell, value) => {
    cell.classList.add("bar");
    cell.classList.toggle("low", value < limit);
    cell.style.setProperty("--share", Math.min(value / full, 1));
  };
  const colour = (cell, value) => value && cell.classList.add(value > 0 ? "up" : "down");
  const last = (rows) => rows[rows.length - 1];
  const ofRun = (run, runIndex) => [
    run.won && { label: "won", title: "own training samples won, %", values: last(run.won), show: String, dress: bar(100 * data.starving, 100) },
    run.ratio && { label: "ratio", title: "gradient ratio at the end", values: last(run.ratio), show: ratio, dress: bar(data.starvingRatio, 1) },
    run.metric && { label: data.metric, title: `${data.metric}, %`, values: run.metric, show: oneDigit },
    run.change && { label: "Δ", title: `${data.metric} against ${data.runs[0].name}`, values: run.change, show: signed, dress: colour },
  ].filter(Boolean).map((column, number) => ({ ...column, runIndex, starts: number === 0 }));
  return [
    { label: "category", values: data.names, show: String, text: true },
    { label: "group", values: data.groups, show: (group) => data.groupNames[group], text: true },
    ...(data.counts ? [{ label: "count", title: "training samples", values: data.counts, show: whole }] : []),
    ...data.runs.flatMap(ofRun),
  ];
}

function matching(data, text, group) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return [...data.names.keys()].filter((index) =>
    (group === "" || data.groups[index] === Number(group)) &&
    words.every((word) => data.names[index].toLowerCase().includes(word)));
}

// Unknown values come last in both directions.
function orderBy({ values }, descending) {
  const collator = new Intl.Collator();
  return (a, b) => {
    const [one, other] = [values[a], values[b]];
    if (!known(one) || !known(other)) return Number(known(other)) - Number(known(one));
    const order = typeof one === "string" ? collator.compare(one, other) : one - other;
    return descending ? -order : order;
  };
}

function makeRow(columns, index, position) {
  const row = element("tr");
  row.setAttribute("aria-rowindex", position + 3);
  columns.forEach((column, number) => {
    const value = column.values[index];
    const cell = element(number ? "td" : "th", known(value) ? column.show(value) : "–");
    if (!number) Object.assign(cell, { scope: "row", title: value, dir: "auto" });
    cell.classList.toggle("text", Boolean(column.text));
    cell.classList.toggle("starts", Boolean(column.starts));
    if (column.dress && known(value)) column.dress(cell, value);
    row.append(cell);
  });
  return row;
}

// Stands for rows that are not in the document.
function gap(count) {
  const row = element("tr", undefined, "gap");
  row.setAttribute("aria-hidden", "true");
  row.style.height = `${count * ROW_HEIGHT}px`;
  return row;
}

function headRows(data, columns, sortBy) {
  const [runRow, labelRow] = [element("tr"), element("tr")];
  const corner = element("td");
  corner.colSpan = columns.filter((column) => column.runIndex === undefined).length;
  runRow.append(corner);
  data.runs.forEach((run, runIndex) => {
    const own = columns.filter((column) => column.runIndex === runIndex);
    if (!own.length) return;
    const heading = element("th", undefined, "run starts");
    heading.append(element("span", undefined, `swatch run-${runIndex % 6}`), element("bdi", run.name));
    Object.assign(heading, { colSpan: own.length, scope: "colgroup" });
    runRow.append(heading);
  });
  labelRow.append(...columns.map((column) => makeHeading(column, sortBy)));
  return [runRow, labelRow];
}

function makeHeading(column, sortBy) {
  const heading = element("th", undefined, column.starts ? "starts" : column.text ? "text" : "");
  const button = element("button", column.label);
  button.type = "button";
  button.title = column.title ? `${column.title}: sort` : "sort";
  button.addEventListener("click", () => sortBy(column, heading));
  heading.scope = "col";
  heading.append(button);
  return heading;
}
