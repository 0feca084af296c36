// The page of `fb view`. It shows documents of the server that has sent it, and asks nobody else.
"use strict";

const get = (id) => document.getElementById(id);
const hash = new URLSearchParams(location.hash.slice(1));
const token = hash.get("token") ?? "";
const state = { listing: null, object: null, info: null, chart: null, clusterChart: null, asked: 0 };

async function ask(parameters) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== ""));
  const answer = await fetch(`api?${query}`, { headers: { Authorization: `Bearer ${token}` } });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error?.message ?? answer.statusText);
  return found;
}

/** Does work and shows its errors; what it has read is shown at the bottom. */
async function show(work) {
  get("problem").hidden = true;
  document.body.style.cursor = "progress";
  try {
    await work();
  } catch (error) {
    get("problem").textContent = error.message;
    get("problem").hidden = false;
  }
  document.body.style.cursor = "";
  try {
    showReads(await ask({ of: "reads" }));
  } catch {
    get("reads").textContent = "fb view has ended";
  }
}

function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  for (; n >= 999.5 && unit < units.length - 1; unit++) n /= 1000;
  return unit === 0 ? `${n} B` : `${n.toPrecision(3)} ${units[unit]}`;
}

const count = (n) => n.toLocaleString("en-US");
const short = (x) => (Number.isInteger(x) && Math.abs(x) < 1e9 ? count(x) : Number(x.toPrecision(6)).toString());
const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;

function element(tag, text = "", className = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function rowOf(cells, right = []) {
  const row = element("tr");
  cells.forEach((cell, at) => {
    const made = element("td", cell instanceof Node ? "" : cell, right.includes(at) ? "right" : "");
    if (cell instanceof Node) made.append(cell);
    row.append(made);
  });
  return row;
}

function showReads({ reads, files }) {
  const parts = [`fb view has read ${bytes(reads.bytes)} in ${plural(reads.vectors, "read")}; the file has ${bytes(files.size)}`];
  if (reads.waiting_seconds >= 0.01) parts.push(`waiting ${reads.waiting_seconds.toPrecision(2)} s`);
  if (reads.failed) parts.push(`${count(reads.failed)} failed`);
  get("reads").textContent = parts.join(", ");
}

// -- objects ------------------------------------------------------------------------------------------

const isNTuple = (object) => object.class === "ROOT::RNTuple" || /^TTree$|^TNtupleD?$|^TChain$/.test(object.class);
const isHistogram = (object) => /^TH[123][CSILFD]$|^TProfile(2D|3D)?$/.test(object.class);
const keyOf = (object) => `${object.path};${object.cycle}`;

async function start() {
  state.listing = await ask({ of: "listing" });
  const { file, bytes: size, root_version: version, objects } = state.listing;
  document.title = `${file.split("/").pop()} — fb view`;
  get("file").textContent = file;
  get("facts").textContent = `${bytes(size)}, ${plural(objects.length, "object")}, ROOT ${version}, ${state.listing.compression}`;
  listObjects();
  const wanted = hash.get("name");
  const named = objects.find((object) => object.path === wanted || keyOf(object) === wanted);
  const first = named ?? objects.find(isNTuple) ?? objects[0];
  if (first) await choose(first);
}

function listObjects() {
  const text = get("find-object").value.toLowerCase();
  const items = state.listing.objects
    .filter((object) => `${object.path} ${object.class} ${object.title}`.toLowerCase().includes(text))
    .map((object) => {
      const button = element("button", keyOf(object));
      const entries = object.num_entries == null ? "" : `, ${count(object.num_entries)} entries`;
      button.append(element("small", `${object.class}, ${bytes(object.bytes_on_disk)}${entries}`));
      button.setAttribute("aria-current", String(object === state.object));
      button.onclick = () => show(() => choose(object));
      const item = element("li");
      item.append(button);
      return item;
    });
  get("objects").replaceChildren(...items);
}

function properties(pairs) {
  const items = pairs.filter(([, value]) => value != null && value !== "");
  get("properties").replaceChildren(...items.flatMap(([name, value]) => [element("dt", name), element("dd", value)]));
}

async function choose(object) {
  state.object = object;
  state.info = null;
  listObjects();
  clearChart();
  get("about").hidden = false;
  get("ntuple").hidden = true;
  get("name").textContent = keyOf(object);
  properties([
    ["class", object.class],
    ["title", object.title],
    ["written", object.datetime],
    ["on disk", bytes(object.bytes_on_disk)],
    ["uncompressed", bytes(object.bytes_uncompressed)],
    ["error", object.error?.message],
  ]);
  if (isNTuple(object)) await showNTuple(object);
  else if (isHistogram(object)) drawHistogram(await ask({ of: "stored", name: keyOf(object) }), get("log").checked);
}

// -- ntuples ------------------------------------------------------------------------------------------

const labelOf = (field) => field.path ?? field.name;
const ownBytes = (field) => field.columns.reduce((sum, column) => sum + column.bytes_on_disk, 0);

async function showNTuple(object) {
  const info = await ask({ of: "info", name: keyOf(object) });
  state.info = info;
  const groups = info.cluster_groups.length;
  const pages = info.clusters.reduce((sum, cluster) => sum + cluster.pages, 0);
  properties([
    ["description", info.description],
    ["entries", count(info.num_entries)],
    ["schema", `${plural(info.fields.filter((field) => field.parent == null).length, "top-level field")}`],
    ["size", `${bytes(info.bytes_on_disk)} on disk for ${bytes(info.bytes_uncompressed)}`],
    ["compression", info.compressions.join(", ")],
    ["clusters", `${plural(info.clusters.length, "cluster")} in ${plural(groups, "group")}, ${plural(pages, "page")}`],
    ["version", info.version],
    ["writer", info.writer],
    ["skipped", info.skipped.map((field) => `${field.name}: ${field.reason}`).join("; ")],
  ]);
  get("find-field").value = "";
  get("values").value = "";
  get("pages-of").value = "";
  listFields();
  const withPages = info.fields.filter((field) => field.columns.length > 0 && field.projected_from == null);
  options("columns-with-pages", withPages.map(labelOf));
  options("columns-with-values", info.fields.filter((field) => field.path && !field.anonymous).map(labelOf));
  get("ntuple").hidden = false;
  await tab("schema");
}

function options(id, names) {
  get(id).replaceChildren(...names.map((name) => Object.assign(document.createElement("option"), { value: name })));
}

async function tab(name) {
  for (const button of get("tabs").children) {
    button.setAttribute("aria-selected", String(button.dataset.tab === name));
    get(button.dataset.tab).hidden = button.dataset.tab !== name;
  }
  get("picture").hidden = name !== "draw" || !state.chart;
  if (name === "sizes") drawTreemap();
  if (name === "clusters") await showClusters();
}

function listFields() {
  const text = get("find-field").value.toLowerCase();
  const shown = state.info.fields.filter(
    (field) => !field.anonymous && `${labelOf(field)} ${field.typename} ${field.description}`.toLowerCase().includes(text),
  );
  const rows = shown.map((field) => {
    const button = element("button", labelOf(field));
    button.onclick = () => drawField(field);
    const isOwn = field.projected_from == null && field.bytes_on_disk != null;
    const columns = [...new Set(field.columns.map((column) => column.type))].join(", ");
    return rowOf(
      [
        button,
        field.typealias ? `${field.typealias} = ${field.typename}` : field.typename,
        field.projected_from == null ? columns : `from ${field.projected_from}`,
        isOwn ? bytes(field.bytes_on_disk) : "",
        isOwn && field.compression_factor != null ? field.compression_factor.toPrecision(3) : "",
        isOwn ? field.compressions.join(", ") : "",
        field.description,
      ],
      [3, 4],
    );
  });
  get("fields").replaceChildren(...rows);
  get("n-fields").textContent = `${count(shown.length)} of ${count(state.info.fields.filter((f) => !f.anonymous).length)}`;
}

function drawField(field) {
  get("values").value = labelOf(field);
  for (const id of ["bins", "low", "high"]) get(id).value = "";
  show(async () => {
    await tab("draw");
    await drawColumn();
  });
}

// -- sizes --------------------------------------------------------------------------------------------

/** Columns in groups: those of a collection or record, or those whose names begin alike. */
function grouped(fields) {
  const groups = new Map();
  for (const field of fields) {
    const label = labelOf(field);
    const name = label.includes(".") ? label.slice(0, label.lastIndexOf(".")) : label.split("_")[0] || label;
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(field);
  }
  return [...groups].map(([name, members]) => ({
    name,
    title: titleOf(name, members),
    members: members.map((field) => ({ field, size: ownBytes(field) })).sort((a, b) => b.size - a.size),
    size: members.reduce((sum, field) => sum + ownBytes(field), 0),
  }));
}

/** ROOT numbers the collections that have no name; their columns begin alike. */
function titleOf(name, members) {
  const begin = (field) => labelOf(field).split(".").pop().split("_")[0];
  const begins = new Set(members.filter((field) => labelOf(field) !== name).map(begin));
  begins.delete("");
  return name.startsWith("_collection") && begins.size === 1 ? [...begins][0] : name;
}

/** Squarified treemap: rows of rectangles that are as square as possible. */
function squarify(items, box) {
  const total = items.reduce((sum, item) => sum + item.size, 0);
  let { x, y, width, height } = box;
  const scale = (width * height) / total;
  const left = items.filter((item) => item.size > 0).sort((a, b) => b.size - a.size);
  const out = [];
  while (left.length && width > 0 && height > 0) {
    const side = Math.min(width, height);
    const worst = (row, sum) =>
      Math.max((side * side * row[0].size * scale) / (sum * scale) ** 2, (sum * scale) ** 2 / (side * side * row.at(-1).size * scale));
    const row = [left.shift()];
    let sum = row[0].size;
    while (left.length && worst([...row, left[0]], sum + left[0].size) <= worst(row, sum)) {
      sum += left[0].size;
      row.push(left.shift());
    }
    const depth = (sum * scale) / side;
    let along = 0;
    for (const item of row) {
      const length = (item.size / sum) * side;
      const isWide = width >= height;
      out.push({ item, x: isWide ? x : x + along, y: isWide ? y + along : y, width: isWide ? depth : length, height: isWide ? length : depth });
      along += length;
    }
    if (width >= height) [x, width] = [x + depth, width - depth];
    else [y, height] = [y + depth, height - depth];
  }
  return out;
}

function placed(made, { x, y, width, height }) {
  Object.assign(made.style, { left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${height}px` });
  return made;
}

function drawTreemap() {
  const map = get("treemap");
  const fields = state.info.fields.filter((field) => field.projected_from == null && ownBytes(field) > 0);
  const total = fields.reduce((sum, field) => sum + ownBytes(field), 0);
  const groups = grouped(fields);
  const largest = Math.max(...groups.map((group) => group.size));
  const boxes = squarify(groups, { x: 0, y: 0, width: map.clientWidth, height: map.clientHeight });
  map.replaceChildren(
    ...boxes.map(({ item: group, ...box }) => {
      const frame = placed(element("div", "", "group"), box);
      const hue = 190 + 60 * (1 - group.size / largest);
      frame.style.background = `hsl(${hue} 45% 72%)`;
      frame.append(element("span", `${group.title} ${bytes(group.size)}`));
      const inside = { x: 0, y: 15, width: box.width - 2, height: box.height - 17 };
      if (inside.width < 8 || inside.height < 8) return frame;
      for (const { item, ...place } of squarify(group.members, inside)) {
        const label = labelOf(item.field);
        const own = label.startsWith(`${group.name}.`) ? label.slice(group.name.length + 1) : label;
        const tile = placed(element("div", place.width > 30 && place.height > 12 ? own : "", "tile"), place);
        tile.title = `${label}\n${item.field.typename}\n${bytes(item.size)}, ${((100 * item.size) / total).toFixed(1)} %`;
        tile.style.background = `hsl(${hue} 55% 84%)`;
        tile.onclick = () => drawField(item.field);
        frame.append(tile);
      }
      return frame;
    }),
  );
}

// -- clusters -----------------------------------------------------------------------------------------

async function showClusters() {
  const label = get("pages-of").value;
  const field = state.info.fields.find((known) => labelOf(known) === label);
  if (label && !field) throw new Error(`there is no field ${label}`);
  const name = keyOf(state.object);
  const clusters = field
    ? await ask({ of: "pages", name, field: field.id })
    : state.info.clusters.map(({ id, ...rest }) => ({ cluster: id, ...rest }));
  const rows = clusters.map((one) =>
    rowOf(
      [count(one.cluster), count(one.first_entry), count(one.pages), bytes(one.bytes_on_disk), bytes(one.bytes_uncompressed)],
      [0, 1, 2, 3, 4],
    ),
  );
  get("cluster-rows").replaceChildren(...rows);
  state.clusterChart?.destroy();
  state.clusterChart = null;
  if (!clusters.length) return;
  const data = [clusters.map((one) => one.cluster), clusters.map((one) => one.bytes_on_disk), clusters.map((one) => one.pages)];
  state.clusterChart = new uPlot(
    {
      width: width(),
      height: 220,
      scales: { x: { time: false, range: (_, low, high) => [low - 0.5, high + 0.5] }, bytes: { range: (_, low, high) => [0, high * 1.05 || 1] }, pages: { range: (_, low, high) => [0, high * 1.05 || 1] } },
      axes: [
        { label: "cluster", incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000] },
        { scale: "bytes", size: 70, values: (_, ticks) => ticks.map(bytes) },
        { scale: "pages", side: 1, grid: { show: false } },
      ],
      series: [
        { label: "cluster" },
        { label: "on disk", scale: "bytes", fill: "#7fb2dc", stroke: "#1f6fb4", paths: uPlot.paths.bars({ size: [0.8, 60] }), points: { show: false }, value: (_, n) => (n == null ? "" : bytes(n)) },
        { label: "pages", scale: "pages", stroke: "#b4531f", points: { show: true, size: 5 } },
      ],
    },
    data,
    get("cluster-chart"),
  );
}

// -- histograms ---------------------------------------------------------------------------------------

const width = () => Math.max(320, document.querySelector("main").clientWidth - 40);

function clearChart() {
  state.chart?.destroy();
  state.chart = null;
  get("picture").hidden = true;
  get("notes").textContent = "";
}

async function drawColumn() {
  const number = ++state.asked;
  const found = await ask({
    of: "histogram",
    name: keyOf(state.object),
    values: get("values").value,
    where: get("cut").value,
    bins: get("bins").value,
    low: get("low").value,
    high: get("high").value,
  });
  if (number === state.asked) drawHistogram(found, get("log").checked);
}

function drawHistogram(found, log) {
  clearChart();
  get("picture").hidden = false;
  state.found = found;
  const notes = [`${short(found.entries)} entries`];
  const { fTsumw: w, fTsumwx: wx, fTsumwx2: wxx } = found.statistics;
  if (w) notes.push(`mean ${short(wx / w)}`, `standard deviation ${short(Math.sqrt(Math.abs(wxx / w - (wx / w) ** 2)))}`);
  if (found.selected_entries != null) notes.unshift(`${plural(found.selected_entries, "event")} selected`);
  if (found.nan) notes.push(`${count(found.nan)} values are NaN`);
  if (found.axes.length > 1) {
    get("notes").textContent = `${notes.join(", ")}; only histograms with one axis are drawn`;
    return;
  }
  const [axis] = found.axes;
  const { edges } = axis;
  const inside = found.values.slice(1, -1);
  const [under, over] = [found.values[0], found.values.at(-1)];
  if (under) notes.push(`underflow ${short(under)}`);
  if (over) notes.push(`overflow ${short(over)}`);
  get("notes").textContent = notes.join(", ");
  // steps: the content of a bin from its lower to its upper edge
  const steps = [...inside, inside.at(-1) ?? 0].map((value) => (log && value <= 0 ? null : value));
  const labels = new Map(axis.labels);
  const positive = inside.filter((value) => value > 0);
  const range = log
    ? () => [Math.min(...positive, 1) / 2, Math.max(...positive, 1) * 2]
    : (_, low, high) => [Math.min(0, low), Math.max(high, 0) * 1.05 || 1];
  state.chart = new uPlot(
    {
      width: width(),
      height: 380,
      title: found.title,
      scales: { x: { time: false, range: () => [edges[0], edges.at(-1)] }, y: { distr: log ? 3 : 1, range } },
      axes: [
        {
          label: axis.title,
          ...(labels.size && {
            splits: () => edges.slice(0, -1).map((low, bin) => (low + edges[bin + 1]) / 2),
            values: () => edges.slice(0, -1).map((_, bin) => labels.get(bin + 1) ?? ""),
          }),
        },
        { size: 70, values: (_, ticks) => ticks.map((value) => (value == null ? "" : short(value))) },
      ],
      series: [
        { label: "from", value: (_, x) => (x == null ? "" : short(x)) },
        {
          label: "content",
          stroke: "#1f6fb4",
          fill: "#cfe2f3",
          width: 1.5,
          paths: uPlot.paths.stepped({ align: 1 }),
          points: { show: false },
          value: (_, y) => (y == null ? "" : short(y)),
        },
      ],
    },
    [edges, steps],
    get("chart"),
  );
}

// -- events -------------------------------------------------------------------------------------------

get("find-object").oninput = listObjects;
get("find-field").oninput = listFields;
get("pages-of").onchange = () => show(showClusters);
get("log").onchange = () => state.found && state.chart && drawHistogram(state.found, get("log").checked);
get("drawing").onsubmit = (event) => {
  event.preventDefault();
  show(drawColumn);
};
for (const button of get("tabs").children) button.onclick = () => show(() => tab(button.dataset.tab));
window.onresize = () => {
  state.chart?.setSize({ width: width(), height: 380 });
  state.clusterChart?.setSize({ width: width(), height: 220 });
  if (state.info && !get("sizes").hidden) drawTreemap();
};
show(start);
