"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const totals = data.totals;
const cycles = data.cycles.map(readCycle);
let current = 0;  // Index of the cycle that the page shows.

const byId = (id) => document.getElementById(id);

// Makes an element. Children are elements or text; text never becomes markup.
function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function shape(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const count = (number, noun) => `${number.toLocaleString("en-US")} ${noun}${number === 1 ? "" : "s"}`;
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
const ratio = (part, whole) => (whole > 0 ? part / whole : 0);

function percent(fraction) {
  const value = 100 * fraction;
  if (value > 0 && value < 0.1) return "<0.1 %";
  return `${value.toFixed(value < 9.95 ? 1 : 0)} %`;
}

function time(milliseconds) {
  if (milliseconds >= 1000) return `${(milliseconds / 1000).toFixed(2)} s`;
  return `${milliseconds.toFixed(milliseconds < 100 ? 2 : 1)} ms`;
}

// How a prediction compares with the measured value, in words.
function comparison(predicted, measured) {
  const error = Math.round(100 * ratio(predicted - measured, measured));
  if (error === 0) return "as predicted";
  return `predicted ${Math.abs(error)} % too ${error < 0 ? "low" : "high"}`;
}

// ---- Cycles -------------------------------------------------------------------------------------

// The nodes of a cycle become objects. The first is the root, the last the target's own token.
function readCycle(cycle) {
  const nodes = [{kind: "root", label: cycle.root[0], id: cycle.root[1], parent: null}];
  for (const [parent, label, id, probability, source, accepted] of cycle.nodes) {
    const kind = accepted ? "accepted" : "rejected";
    nodes.push({kind, label, id, probability, source, parent: nodes[parent + 1]});
  }
  const last = nodes.findLast((node) => node.kind === "accepted") ?? nodes[0];
  nodes.push({kind: "target", label: cycle.next[0], id: cycle.next[1], parent: last});
  const accepted = nodes.filter((node) => node.kind === "accepted").length;
  return {...cycle, nodes, accepted};
}

// ---- The tree: one row per leaf at most, and the accepted path in one row ------------------------

const ROW = 31, CHIP = 25, GAP = 20, MARGIN = 6, LONGEST = 16, BADGE = 14;
const SMALLEST_SCALE = 0.72, LOWEST = 170, HIGHEST = 620;
const LETTERS = {draft: "D", table: "T", request: "R", learned: "L"};
const SOURCES = {draft: "the drafter", table: "the transition table", request: "the request's own tokens",
                 learned: "the counts of all requests"};

const ruler = document.createElement("canvas").getContext("2d");
ruler.font = "650 12.5px " + getComputedStyle(document.documentElement).getPropertyValue("--mono");

function shortLabel(label) {
  const characters = [...label];
  return characters.length <= LONGEST ? label : characters.slice(0, LONGEST - 1).join("") + "…";
}

// Sets x, y and width of all nodes. Returns the size of the drawing.
function layOut({nodes}) {
  const widths = [];  // Per depth.
  for (const node of nodes) {
    node.children = [];
    node.depth = node.parent ? node.parent.depth + 1 : 0;
    if (node.parent) node.parent.children.push(node);
    node.width = Math.ceil(ruler.measureText(shortLabel(node.label)).width) + 16;
    if (node.source) node.width += BADGE + 8 + Math.ceil(6 * percent(node.probability).length);
    widths[node.depth] = Math.max(widths[node.depth] ?? 0, node.width);
  }
  // Every node comes after its parent, so this packs subtrees from the leaves up.
  for (const node of nodes.toReversed()) pack(node);
  const root = nodes[0];
  root.row = -Math.min(...root.top);
  for (const node of nodes) {
    node.children.forEach((child, i) => (child.row = node.row + node.offsets[i]));
    node.x = MARGIN + sum(widths.slice(0, node.depth)) + GAP * node.depth;
    node.y = MARGIN + ROW * node.row + CHIP / 2;
  }
  const rows = Math.max(...nodes.map((node) => node.row)) + 1;
  return {width: 2 * MARGIN + sum(widths) + GAP * (widths.length - 1), height: 2 * MARGIN + ROW * rows - (ROW - CHIP)};
}

// Places the subtrees of a node's children below each other, as close as their outlines allow. `top`
// and `bottom` are the outline: the first and the last row of each depth, relative to the node.
function pack(node) {
  const rank = (child) => (child.kind === "target" ? 2 : child.probability);
  node.children.sort((a, b) => rank(b) - rank(a));
  const top = [], bottom = [], offsets = [];
  for (const child of node.children) {
    let offset = 0;
    child.top.forEach((first, depth) => {
      if (depth < bottom.length) offset = Math.max(offset, bottom[depth] - first + 1);
    });
    offsets.push(offset);
    child.top.forEach((first, depth) => (top[depth] ??= offset + first));
    child.bottom.forEach((last, depth) => (bottom[depth] = offset + last));
  }
  // The node is in the row of its accepted child, or of the most probable one.
  const main = Math.max(0, node.children.findIndex((child) => child.kind !== "rejected"));
  const shift = offsets[main] ?? 0;
  node.offsets = offsets.map((offset) => offset - shift);
  node.top = [0, ...top.map((row) => row - shift)];
  node.bottom = [0, ...bottom.map((row) => row - shift)];
}

function drawLink(node) {
  const {parent} = node, right = parent.x + parent.width, turn = node.x - GAP / 2;
  let path = `M${right} ${parent.y}H${node.x}`;
  if (node.y !== parent.y) {
    const radius = node.y > parent.y ? 6 : -6;
    path = `M${right} ${parent.y}H${turn - 6}Q${turn} ${parent.y} ${turn} ${parent.y + radius}` +
           `V${node.y - radius}Q${turn} ${node.y} ${turn + 6} ${node.y}H${node.x}`;
  }
  node.link = shape("path", {class: node.kind === "rejected" ? "link" : "link path", d: path});
  return node.link;
}

function drawChip(node) {
  const {x, y, width, source} = node;
  const top = y - CHIP / 2, left = x + (source ? BADGE + 9 : 8);
  const chip = shape("g", {class: `chip ${node.kind}`, tabindex: 0, role: "img", "aria-label": describe(node)},
                     shape("rect", {class: "box", x, y: top, width, height: CHIP, rx: 7}));
  if (source) {
    const likely = (x + width - 6 - left) * node.probability;
    if (likely > 3) chip.append(shape("rect", {class: `likely ${source}`, x: left, y: top + CHIP - 4.5, width: likely, height: 2, rx: 1}));
    chip.append(
      shape("rect", {class: `source ${source}`, x: x + 5, y: y - BADGE / 2, width: BADGE, height: BADGE, rx: 4}),
      shape("text", {class: "letter", x: x + 5 + BADGE / 2, y}, LETTERS[source] ?? "?"),
      shape("text", {class: "percent", x: x + width - 6, y}, percent(node.probability)));
  }
  chip.append(shape("text", {class: "label", x: left, y}, shortLabel(node.label)));
  for (const event of ["pointerenter", "focus"]) chip.addEventListener(event, () => showNode(node));
  for (const event of ["pointerleave", "blur"]) chip.addEventListener(event, () => showNode(null));
  return chip;
}

// The scale at which a tree fits the canvas. A tree that would not be readable then scrolls.
function scaleOf({width, height}) {
  const fits = [byId("canvas").clientWidth / width, HIGHEST / height];
  return Math.min(1, ...fits.filter((scale) => scale >= SMALLEST_SCALE));
}

function showTree(cycle) {
  const canvas = byId("canvas");
  const scale = scaleOf(cycle.size), {width, height} = cycle.size;
  const links = cycle.nodes.slice(1).map(drawLink);
  links.sort((a, b) => a.classList.length - b.classList.length);  // The path is drawn last.
  canvas.replaceChildren(shape("svg", {width: width * scale, height: height * scale, viewBox: `0 0 ${width} ${height}`},
                               ...links, ...cycle.nodes.map(drawChip)));
  canvas.scrollTo(0, cycle.nodes[0].y * scale - canvas.clientHeight / 2);
  showNode(null);
}

// Most trees have the same space, so the page seldom moves when the cycle changes. A larger tree has
// more, up to HIGHEST.
function reserveSpaceForTrees() {
  const heights = cycles.map(({size}) => size.height * scaleOf(size) + 16).sort((a, b) => a - b);
  const usual = heights[Math.floor(0.7 * heights.length)];
  byId("canvas").style.minHeight = `${Math.min(HIGHEST, Math.max(LOWEST, usual))}px`;
  byId("canvas").style.maxHeight = `${HIGHEST}px`;
}

function describe(node) {
  if (node.kind === "root") return `${node.label}: the last token before this cycle`;
  if (node.kind === "target") return `${node.label}: the target's own token, which ends the accepted path`;
  return `${node.label}: ${percent(node.probability)}, from ${SOURCES[node.source] ?? node.source}, ` +
         (node.kind === "accepted" ? "accepted" : "not accepted");
}

// Shows the details of a node below the tree, or a hint if there is none.
function showNode(node) {
  const line = byId("node");
  const cycle = cycles[current];
  for (const other of cycle.nodes) other.link?.classList.remove("traced");
  if (!node) {
    const missing = cycle.budget - (cycle.nodes.length - 2);
    const note = missing > 0 ? `${count(missing, "less probable node")} not shown. ` : "";
    line.replaceChildren(`${note}Point at a node for its details.`);
    return;
  }
  for (let other = node; other.link; other = other.parent) other.link.classList.add("traced");
  const facts = [element("code", {}, node.label), `token ${node.id}`];
  if (node.source) {
    const before = node.parent.probability ?? 1;
    facts.push(element("span", {}, element("b", {}, percent(node.probability)), " for the path"),
               element("span", {}, element("b", {}, percent(ratio(node.probability, before))), " after its parent"),
               `from ${SOURCES[node.source] ?? node.source}`, `depth ${node.depth}`,
               element("b", {}, node.kind === "accepted" ? "accepted" : "not accepted"));
  } else {
    facts.push(describe(node).slice(node.label.length + 2));
  }
  line.replaceChildren(...facts.map((fact) => (typeof fact === "string" ? element("span", {}, fact) : fact)));
}

// ---- One cycle in numbers -----------------------------------------------------------------------

function bar(name, value, most) {
  const filled = element("div", {class: `bar ${name}`});
  filled.style.width = `${100 * ratio(value, most)}%`;
  return [element("span", {class: "name"}, name), element("div", {class: "track"}, filled),
          element("span", {class: "number"}, time(value))];
}

function stageBar(stages, total) {
  return element("div", {class: "stages", "aria-hidden": "true"}, ...stages.map(([name, value]) => {
    const part = element("i", {class: name, title: `${name} ${time(value)}`});
    part.style.width = `${100 * ratio(value, total)}%`;
    return part;
  }));
}

function stageTable(stages, total) {
  return element("table", {}, ...stages.map(([name, value]) => element(
    "tr", {class: value > 0 ? "" : "none"},
    element("td", {}, element("i", {class: `swatch stage ${name}`}), name === "queue" ? "verify queue" : name),
    element("td", {}, time(value)), element("td", {}, percent(ratio(value, total))))));
}

function showCycle(cycle) {
  const most = Math.max(cycle.predicted, cycle.measured);
  const total = sum(cycle.stages.map(([, value]) => value));
  // Stages that never took time are left out.
  const stages = cycle.stages.filter(([name]) => cycles.some((other) => other.stages.some(([n, value]) => n === name && value > 0)));
  const rows = cycle.share > 0.995 ? "" : `, ${percent(cycle.share)} of them for this request`;
  const ended = cycle.committed <= cycle.accepted ? ", where the answer ended" : "";
  byId("result").replaceChildren(
    cycle.budget === 0 ? "plain decoding" : `${count(cycle.budget, "node")}, ${cycle.accepted} accepted`, " → ",
    element("b", {}, count(cycle.committed, "token")), ended);
  byId("cycle").replaceChildren(
    element("div", {class: "budget"}, element("b", {}, count(cycle.budget, "node")), element("span", {class: "chip-text"}, cycle.reason)),
    element("p", {class: "why"}, `No further nodes: ${cycle.why}.`),
    element("h3", {}, `Verify: ${count(cycle.rows, "row")}${rows}, ${comparison(cycle.predicted, cycle.measured)}`),
    element("div", {class: "rows"}, ...bar("predicted", cycle.predicted, most), ...bar("measured", cycle.measured, most)),
    element("h3", {}, `Stages: ${time(total)}`),
    stageBar(stages, total), stageTable(stages, total));
}

// ---- All cycles ---------------------------------------------------------------------------------

function drawChart() {
  const box = byId("chart"), width = Math.max(240, box.clientWidth), height = 96;
  const left = 26, top = 8, bottom = height - 18;
  const most = Math.max(1, ...cycles.map((cycle) => cycle.committed));
  const slot = (width - left - 10) / cycles.length, thick = Math.min(30, slot > 4 ? slot * 0.72 : slot);
  const y = (tokens) => bottom - (bottom - top) * tokens / most;
  const svg = shape("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Tokens per cycle"});
  for (const tokens of new Set([0, Math.round(most / 2), most])) {
    svg.append(shape("line", {class: "grid", x1: left, x2: width, y1: y(tokens), y2: y(tokens)}),
               shape("text", {x: left - 6, y: y(tokens) + 4, "text-anchor": "end"}, String(tokens)));
  }
  const every = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((step) => step * slot > 34) ?? 1000;
  cycles.forEach((cycle, i) => {
    const x = left + i * slot, middle = x + slot / 2, accepted = Math.min(cycle.accepted, cycle.committed);
    const part = (name, from, to) => shape("rect", {class: name, x: middle - thick / 2, width: thick, y: y(to), height: y(from) - y(to)});
    const group = shape("g", {class: "slot"},
      shape("title", {}, `Cycle ${i + 1}: ${count(cycle.committed, "token")}, ${count(cycle.budget, "node")}`),
      shape("rect", {class: "back", x, width: slot, y: 0, height}),
      part("accepted", 0, accepted), part("target", accepted, cycle.committed));
    if ((i === 0 && every > 2) || (i + 1) % every === 0) group.append(shape("text", {x: middle, y: height - 4, "text-anchor": "middle"}, String(i + 1)));
    group.addEventListener("click", () => show(i));
    svg.append(group);
  });
  box.replaceChildren(svg);
}

function drawTiles() {
  const tile = (value, unit, text) => element("div", {class: "tile"}, element("b", {}, `${value} `, element("small", {}, unit)), element("span", {}, text));
  byId("tiles").append(
    tile(Math.round(1000 * ratio(totals.tokens, totals.decode)).toLocaleString("en-US"), "tokens/s", `${time(totals.decode)} of decoding`),
    tile(totals.meanCommitted.toFixed(2), "tokens", "per cycle (τ)"),
    tile(totals.tokens.toLocaleString("en-US"), totals.tokens === 1 ? "token" : "tokens", `in ${count(cycles.length, "cycle")}`),
    tile(totals.accepted.toLocaleString("en-US"), `of ${count(totals.nodes, "node")}`, `accepted (${percent(ratio(totals.accepted, totals.nodes))})`),
    tile(percent(totals.medianError).replace(" %", ""), "%", "median error of predicted verify"),
    tile(totals.firstToken.toFixed(1), "ms", "to the first token"));
}

function drawTotals() {
  const head = (...names) => element("thead", {}, element("tr", {}, ...names.map((name) => element("th", {}, name))));
  const cells = (...values) => values.map((value) => element("td", {}, value));
  const whole = [1, 2, 3].map((i) => sum(totals.sources.map((source) => source[i])));
  const numbers = ([nodes, accepted, expected]) => cells(nodes.toLocaleString("en-US"), accepted.toLocaleString("en-US"), percent(ratio(accepted, nodes)), expected.toFixed(1));
  const body = totals.sources.map(([name, ...values]) => element(
    "tr", {}, element("td", {}, element("i", {class: `badge ${name}`}, LETTERS[name] ?? "?"), name), ...numbers(values)));
  byId("totals").append(
    element("h3", {}, "Nodes by source"),
    element("table", {}, head("source", "nodes", "accepted", "rate", "expected"), element("tbody", {}, ...body),
            element("tfoot", {}, element("tr", {}, ...cells("all"), ...numbers(whole)))),
    element("h3", {}, "Why trees had no further nodes"),
    element("table", {}, ...totals.reasons.toSorted((a, b) => b[1] - a[1]).map(([reason, number, meaning]) => element(
      "tr", {}, element("td", {}, reason), element("td", {class: "wide"}, meaning), ...cells(count(number, "cycle"))))),
    element("h3", {}, `Verify, all cycles: ${comparison(totals.predicted, totals.measured)}`),
    element("div", {class: "rows"}, ...bar("predicted", totals.predicted, Math.max(totals.predicted, totals.measured)),
            ...bar("measured", totals.measured, Math.max(totals.predicted, totals.measured))));
}

function drawTexts() {
  const fact = (name, value) => element("li", {}, `${name} `, element("b", {}, value));
  byId("facts").append(fact("model", data.model), fact("policy", totals.policy), fact("temperature", String(Number(data.temperature.toPrecision(3)))),
                       ...(data.temperature > 0 ? [fact("seed", totals.seed)] : []));
  byId("prompt-title").textContent = `Prompt, ${count(data.promptTokens, "token")}`;
  byId("prompt").textContent = data.prompt;
  byId("answer").append(...cycles.map((cycle, i) => {
    const part = element("span", {}, cycle.part);
    part.addEventListener("click", () => show(i));
    return part;
  }));
}

function shadeAnswer() {
  const box = byId("answer"), parts = [...box.children];
  parts.forEach((part, i) => (part.className = i === current ? "current" : i > current ? "later" : ""));
  const {offsetTop, offsetHeight} = parts[current];
  if (offsetTop < box.scrollTop || offsetTop + offsetHeight > box.scrollTop + box.clientHeight) {
    box.scrollTop = offsetTop - box.clientHeight / 2;
  }
}

// ---- Which cycle is shown -----------------------------------------------------------------------

function show(index) {
  current = Math.min(cycles.length - 1, Math.max(0, index));
  const slider = byId("slider");
  slider.max = cycles.length;
  slider.value = current + 1;
  byId("position").textContent = `Cycle ${current + 1} of ${cycles.length}`;
  byId("previous").disabled = current === 0;
  byId("next").disabled = current === cycles.length - 1;
  byId("chart").querySelectorAll(".slot").forEach((slot, i) => slot.classList.toggle("current", i === current));
  showTree(cycles[current]);
  showCycle(cycles[current]);
  shadeAnswer();
}

function draw() {
  reserveSpaceForTrees();
  drawChart();
  show(current);
}

drawTexts();
drawTiles();
drawTotals();
if (cycles.length > 0) {
  for (const cycle of cycles) cycle.size = layOut(cycle);
  const keys = {ArrowLeft: () => current - 1, ArrowRight: () => current + 1, Home: () => 0, End: () => cycles.length - 1};
  byId("slider").addEventListener("input", (event) => show(event.target.value - 1));
  byId("previous").addEventListener("click", () => show(current - 1));
  byId("next").addEventListener("click", () => show(current + 1));
  document.addEventListener("keydown", (event) => {
    const modified = event.altKey || event.ctrlKey || event.metaKey;
    if (modified || !keys[event.key] || event.target === byId("slider")) return;
    event.preventDefault();
    show(keys[event.key]());
  });
  window.addEventListener("resize", draw);
  current = Math.min(cycles.length, Number.parseInt(location.hash.slice(1), 10) || 1) - 1;
  draw();
}
