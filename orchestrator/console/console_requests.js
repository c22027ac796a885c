// The table of requests, with the latest draft tree of each.

import {format, legendItem, svg} from './console_charts.js';

const SOURCES = {
  draft: 'the drafter',
  table: 'the transition table',
  request: 'this request\'s own text',
  learned: 'text of all requests',
};
// Rows of a drawn tree: paths to leaves.
const MAX_LEAVES = 6;
// Ended requests in the table.
const MAX_ENDED = 3;
// In pixels: the columns before the trees, and the width of the table below which trees get rows.
const OTHER_COLUMNS = 690;
const STACKED_WIDTH = 1050;

export function drawTreeLegend(host) {
  const items =
      Object.entries(SOURCES).map(([source, name]) => legendItem(`s-${source}`, `from ${name}`));
  items.push(legendItem('s-next', 'the next token, chosen by the target'));
  host.replaceChildren(...items);
}

function cell(row, content, style = undefined) {
  const td = document.createElement('td');
  if (style !== undefined) td.className = style;
  td.append(content);
  row.append(td);
  return td;
}

function part(tag, style, text) {
  const element = document.createElement(tag);
  element.className = style;
  element.textContent = text;
  return element;
}

function stateOf(request) {
  if (hasEnded(request)) return request.state;
  if (request.idle_ms > 1000) return 'waiting';
  if (request.state === 'prefill') {
    const done = request.prompt_tokens - request.prompt_left;
    return `prefill ${Math.max(0, Math.round(100 * done / request.prompt_tokens))} %`;
  }
  return request.state;
}

export function hasEnded(request) {
  return request.state === 'done' || request.state === 'failed';
}

// Current requests come first, then the latest ones that have ended.
export function drawRequests(body, requests) {
  const width = body.closest('.scroll').clientWidth;
  // On a narrow page, trees have rows of their own.
  const isStacked = width < STACKED_WIDTH;
  body.closest('table').classList.toggle('stacked', isStacked);
  const ended = requests.filter(hasEnded).sort((a, b) => a.idle_ms - b.idle_ms).slice(0, MAX_ENDED);
  const rows = [
    ...requests.filter((request) => !hasEnded(request)), ...ended
  ].flatMap((request) => {
    const row = document.createElement('tr');
    if (hasEnded(request)) row.className = 'ended';
    const name = cell(row, part('span', 'name', request.id));
    name.firstChild.dataset.tip = request.id;
    name.append(part(
        'span', 'sub name', request.client === '' ? 'no client id' : `client ${request.client}`));
    cell(row, part('span', `state ${request.state}`, stateOf(request)));
    cell(row, part('span', 'name', request.policy));
    cell(row, request.prompt_tokens.toLocaleString('en-US'), 'n');
    cell(row, request.output_tokens.toLocaleString('en-US'), 'n')
        .append(part('span', 'sub', `of ${request.max_tokens.toLocaleString('en-US')}`));
    cell(row, request.cycles.toLocaleString('en-US'), 'n');
    cell(row, request.cycles > 0 ? (request.output_tokens / request.cycles).toFixed(2) : '–', 'n');
    cell(row, request.tokens_per_second === null ? '–' : format(request.tokens_per_second), 'n');
    const tree = request.tree ? treeBox(request.tree, isStacked ? width : width - OTHER_COLUMNS) :
                                part('span', 'sub', 'no tree yet');
    if (!isStacked) {
      cell(row, tree);
      return [row];
    }
    const below = document.createElement('tr');
    cell(below, tree).colSpan = 8;
    return [row, below];
  });
  body.replaceChildren(...rows);
}

function treeBox(tree, width) {
  const box = document.createElement('div');
  box.className = 'tree-box';
  box.style.maxWidth = `${width}px`;
  box.append(drawTree(tree, width));
  return box;
}

// The nodes to draw: the accepted ones, and the best others while the rows suffice. The target's
// choice is the node after the last one of the tree.
function chooseNodes(tree) {
  const next = tree.parents.length + 1, last = tree.accepted.at(-1) ?? 0;
  const accepted = new Set(tree.accepted);
  const nodes = tree.parents.map((_, i) => i + 1);
  const parents = new Map([...nodes.map((node) => [node, tree.parents[node - 1]]), [next, last]]);
  const children = new Map([[0, []]]);
  let leaves = 1;
  for (const node of [...tree.accepted, next, ...nodes.filter((node) => !accepted.has(node))]) {
    const siblings = children.get(parents.get(node));
    if (siblings === undefined || (siblings.length > 0 && leaves === MAX_LEAVES)) continue;
    if (siblings.length > 0) ++leaves;
    siblings.push(node);
    children.set(node, []);
  }
  return {next, accepted: accepted.add(next), parents, children};
}

// Columns are depths. The first child of a node continues its row; the others begin rows below.
function placeNodes(children) {
  const places = new Map();
  let rows = 0, depths = 0;
  const place = (node, depth) => {
    places.set(node, {depth, row: rows});
    depths = Math.max(depths, depth);
    children.get(node).forEach((child, i) => {
      if (i > 0) ++rows;
      place(child, depth + 1);
    });
  };
  place(0, 0);
  return {places, rows: rows + 1, depths};
}

// White space and control characters as visible ones, at most `length` of them.
function visible(text, length) {
  const shown = text.replace(/ /g, '·')
                    .replace(/\n/g, '↵')
                    .replace(/\t/g, '⇥')
                    .replace(/[\p{Cc}\p{Cf}]/gu, '\ufffd');
  const characters = [...shown];
  return characters.length > length ? `${characters.slice(0, length - 1).join('')}…` : shown;
}

function nodeTip(tree, node, isNext, on) {
  const lines = [];
  if (tree.texts) lines.push(visible(isNext ? tree.next_text : tree.texts[node], 40));
  if (node === 0) return [...lines, 'the root: the last token before this cycle'].join('\n');
  if (isNext) return [...lines, 'the next token, the target\'s choice'].join('\n');
  return [
    ...lines, `path probability ${format(tree.probabilities[node - 1])}${on ? ', accepted' : ''}`,
    `from ${SOURCES[tree.sources[node - 1]]}`
  ].join('\n');
}

function drawTree(tree, width) {
  const {next, accepted, parents, children} = chooseNodes(tree);
  const {places, rows, depths} = placeNodes(children);
  const hasText = tree.texts !== undefined;
  const [narrow, wide] = hasText ? [44, 84] : [18, 40];
  const column = Math.min(wide, Math.max(narrow, (width - 20) / (depths + 0.2)));
  const x = (node) => 8 + places.get(node).depth * column;
  const y = (node) => (hasText ? 19 : 9) + places.get(node).row * (hasText ? 25 : 17);
  const hidden = tree.nodes - (children.size - 2);
  const height = (hasText ? 28 : 18) + (rows - 1) * (hasText ? 25 : 17);
  const root = svg('svg', {
    class: 'graph',
    role: 'img',
    width: 18 + depths * column,
    height: height + (hidden > 0 ? 16 : 0),
    'aria-label': `${tree.nodes} nodes, ${tree.accepted.length} accepted`
  });
  const shown = [...children.keys()].filter((node) => node !== 0);
  // The accepted path is drawn last, over the other edges.
  const others = shown.filter((node) => !accepted.has(node));
  for (const node of [...others, ...shown.filter((node) => accepted.has(node))]) {
    const parent = parents.get(node), bend = Math.min(7, column / 3);
    const turn = y(parent) === y(node) ? '' : `V${y(node) - bend}q0 ${bend} ${bend} ${bend}`;
    root.append(svg('path', {
      class: accepted.has(node) ? 'edge on' : 'edge',
      d: `M${x(parent)} ${y(parent)}${turn}H${x(node)}`
    }));
  }
  for (const node of children.keys()) {
    const on = accepted.has(node), isNext = node === next;
    if (hasText && node !== 0) {
      root.append(svg(
          'text', {x: x(node) - column + 9, y: y(node) - 6, class: on ? 'on' : undefined},
          visible(isNext ? tree.next_text : tree.texts[node], Math.floor((column - 14) / 6.8))));
    }
    const style = node === 0 ? 'root' : isNext ? 'next' : tree.sources[node - 1];
    const opacity = on || node === 0 ? 1 : 0.35 + 0.65 * tree.probabilities[node - 1];
    root.append(svg('circle', {
      cx: x(node),
      cy: y(node),
      r: 4,
      class: `s-${style}`,
      'fill-opacity': opacity,
      'data-tip': nodeTip(tree, node, isNext, on)
    }));
    if (on && !isNext) root.append(svg('circle', {cx: x(node), cy: y(node), r: 6, class: 'ring'}));
  }
  if (hidden > 0) {
    root.append(svg('text', {x: 4, y: height + 9}, `and ${hidden} less likely nodes`));
  }
  return root;
}
