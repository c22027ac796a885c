// The charts of the console, as SVG. Each draw function replaces the content of its host element.

export const STAGES = ['draft', 'tree', 'verify_queue', 'verify', 'commit', 'audit', 'transfer'];
export const STAGE_NAMES = {
  draft: 'draft',
  tree: 'tree',
  verify_queue: 'queue',
  verify: 'verify',
  commit: 'commit',
  audit: 'audit',
  transfer: 'transfer',
};
export const BARS = 120;
const MARGIN = {
  left: 44,
  right: 10,
  top: 24,
  bottom: 36
};

// An SVG element with attributes. `text` is its content; it is never parsed as markup.
export function svg(name, attributes = {}, text = undefined) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined) element.setAttribute(key, value);
  }
  if (text !== undefined) element.textContent = text;
  return element;
}

// A number with at most three significant digits, e.g. "1,740", "12.3" or "0.042".
export function format(value) {
  return value.toLocaleString(
      'en-US', value >= 100 ? {maximumFractionDigits: 0} : {maximumSignificantDigits: 3});
}

export function median(values) {
  return quantile(values, 0.5);
}

function quantile(values, share) {
  if (values.length === 0) return undefined;
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(share * (sorted.length - 1))];
}

// The smallest of 1, 2, 5, 10, 20, … (and their tenths) that is at least `value`.
function niceStep(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= value * (1 - 1e-9));
}

// An empty SVG that fills the host, and the area inside its margins.
function canvas(host) {
  const width = host.clientWidth, height = host.clientHeight;
  const root = svg('svg', {role: 'img', viewBox: `0 0 ${width} ${height}`});
  const area = {
    left: MARGIN.left,
    top: MARGIN.top,
    right: width - MARGIN.right,
    bottom: height - MARGIN.bottom,
  };
  host.replaceChildren(root);
  return {root, area, width, height};
}

function axisTitles(root, area, height, titles) {
  root.append(
      svg('text', {x: 2, y: 13, class: 'label'}, titles.y),
      svg('text',
          {x: (area.left + area.right) / 2, y: height - 6, class: 'label', 'text-anchor': 'middle'},
          titles.x));
}

function verticalTick(root, area, y, label) {
  root.append(
      svg('line', {x1: area.left, x2: area.right, y1: y, y2: y, class: 'grid'}),
      svg('text', {x: area.left - 6, y: y + 4, 'text-anchor': 'end'}, label));
}

function hint(root, area, text) {
  root.append(
      svg('text', {
        x: (area.left + area.right) / 2,
        y: (area.top + area.bottom) / 2,
        class: 'hint',
        'text-anchor': 'middle'
      },
          text));
}

// Ticks from 0 to at least `top`. Returns the scale from values to y.
function linearAxis(root, area, top, unit = '') {
  const step = niceStep(top / 4);
  const end = Math.ceil(top / step - 1e-9) * step;
  const scale = (value) => area.bottom - (value / end) * (area.bottom - area.top);
  for (let i = 0; i * step <= end * (1 + 1e-9); ++i) {
    verticalTick(root, area, scale(i * step), `${format(i * step)}${unit}`);
  }
  return {scale, end};
}

// Stacked bars: the stages of the last cycles. A bar beyond the scale ends in an arrow.
export function drawBars(host, cycles) {
  const {root, area, height} = canvas(host);
  axisTitles(root, area, height, {x: 'cycle number, newest at the right', y: 'time (ms)'});
  const shown = cycles.slice(-BARS);
  if (shown.length === 0) {
    linearAxis(root, area, 1);
    hint(root, area, 'No cycles yet. Send a prompt to see the first ones.');
    return;
  }
  const totals = shown.map((cycle) => cycle.total);
  const typical = quantile(totals, 0.95), longest = Math.max(...totals);
  const {scale, end} =
      linearAxis(root, area, Math.max(longest > 1.6 * typical ? 1.15 * typical : longest, 0.01));
  const slot = (area.right - area.left) / BARS, bar = Math.max(1, slot - Math.min(2, slot / 4));
  shown.forEach((cycle, i) => {
    const x = area.right - (shown.length - i) * slot;
    let below = 0;
    for (const stage of STAGES) {
      const time = cycle[`${stage}_ms`];
      const from = Math.min(below, end), to = Math.min(below + time, end);
      below += time;
      if (to <= from) continue;
      root.append(svg(
          'rect', {x, width: bar, y: scale(to), height: scale(from) - scale(to), class: stage}));
    }
    if (cycle.total > end) {
      const middle = x + bar / 2, y = area.top - 7;
      root.append(
          svg('path',
              {class: 'cut', d: `M${middle - 3} ${y + 5}L${middle + 3} ${y + 5}L${middle} ${y}Z`}));
    }
    if (cycle.number % 20 === 0) {
      root.append(svg(
          'text', {x: x + bar / 2, y: area.bottom + 15, 'text-anchor': 'middle'}, cycle.number));
    }
  });
  root.append(svg(
      'line', {x1: area.left, x2: area.right, y1: area.bottom, y2: area.bottom, class: 'axis'}));
  shown.forEach((cycle, i) => {
    root.append(svg('rect', {
      x: area.right - (shown.length - i) * slot,
      width: slot,
      y: area.top,
      height: area.bottom - area.top,
      class: 'hit',
      'data-tip': cycleTip(cycle)
    }));
  });
}

function cycleTip(cycle) {
  const stages = STAGES.filter((stage) => cycle[`${stage}_ms`] > 0)
                     .map((stage) => `${STAGE_NAMES[stage]} ${format(cycle[`${stage}_ms`])} ms`);
  return [
    `cycle ${cycle.number}: ${format(cycle.total)} ms, ${cycle.mode.replace('_', ' ')}`,
    `${cycle.requests} requests, ${cycle.rows} rows: ${cycle.nodes} nodes, ` +
        `${cycle.prompt_rows} of prompts`,
    `${cycle.tokens} tokens of output`, ...stages
  ].join('\n');
}

// A histogram: the shares of request cycles by the number of tokens that they committed.
export function drawLengths(host, counts) {
  const {root, area, height} = canvas(host);
  axisTitles(
      root, area, height,
      {x: 'tokens committed by a request in a cycle', y: 'share of cycles (%)'});
  const sum = counts.reduce((a, b) => a + b, 0);
  const shares = counts.map((count) => sum > 0 ? 100 * count / sum : 0);
  const {scale} = linearAxis(root, area, sum > 0 ? Math.max(...shares) * 1.08 : 100);
  const slot = (area.right - area.left) / counts.length;
  shares.forEach((share, i) => {
    const x = area.left + i * slot, last = i === counts.length - 1;
    // If there is not room for all labels: 1, 3, 5, …
    if (slot > 26 || i % 2 === 0) {
      root.append(
          svg('text', {x: x + slot / 2, y: area.bottom + 15, 'text-anchor': 'middle'},
              last ? `${i + 1}+` : i + 1));
    }
    if (share === 0) return;
    root.append(svg('rect', {
      x: x + slot * 0.14,
      width: slot * 0.72,
      y: scale(share),
      rx: 1.5,
      height: area.bottom - scale(share),
      class: 'bar'
    }));
    root.append(svg('rect', {
      x,
      width: slot,
      y: area.top,
      height: area.bottom - area.top,
      class: 'hit',
      'data-tip': `${i + 1}${last ? ' or more' : ''} tokens: ${format(share)} % (${
          counts[i].toLocaleString('en-US')} cycles)`
    }));
  });
  root.append(svg(
      'line', {x1: area.left, x2: area.right, y1: area.bottom, y2: area.bottom, class: 'axis'}));
  if (sum === 0) hint(root, area, 'Nothing decoded in the last minute');
}

// The ticks 1, 2, 5, 10, … between two positive numbers.
function logTicks(from, to) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(from)); power <= Math.log10(to); ++power) {
    for (const factor of [1, 2, 5]) {
      const tick = factor * 10 ** power;
      if (tick >= from * 0.999 && tick <= to * 1.001) ticks.push(tick);
    }
  }
  return ticks;
}

// Predicted and measured verify times on logarithmic axes, with the diagonal.
export function drawScatter(host, cycles) {
  const {root, area, height} = canvas(host);
  axisTitles(root, area, height, {x: 'predicted (ms)', y: 'measured (ms)'});
  const points = cycles.filter((cycle) => cycle.verify_ms > 0 && cycle.predicted_verify_ms > 0);
  const times = points.flatMap((cycle) => [cycle.verify_ms, cycle.predicted_verify_ms]);
  let from = times.length > 0 ? Math.min(...times) / 1.15 : 0.1;
  let to = times.length > 0 ? Math.max(...times) * 1.15 : 10;
  const widen = Math.sqrt(Math.max(1, 6 / (to / from)));
  from /= widen;
  to *= widen;
  const share = (value) => Math.log(value / from) / Math.log(to / from);
  const x = (value) => area.left + share(value) * (area.right - area.left);
  const y = (value) => area.bottom - share(value) * (area.bottom - area.top);
  const ticks = logTicks(from, to);
  for (const tick of ticks) {
    verticalTick(root, area, y(tick), format(tick));
    root.append(
        svg('line', {x1: x(tick), x2: x(tick), y1: area.top, y2: area.bottom, class: 'grid'}),
        svg('text', {x: x(tick), y: area.bottom + 15, 'text-anchor': 'middle'}, format(tick)));
  }
  root.append(svg(
      'line', {x1: area.left, y1: area.bottom, x2: area.right, y2: area.top, class: 'diagonal'}));
  for (const cycle of points) {
    root.append(svg('circle', {
      cx: x(cycle.predicted_verify_ms),
      cy: y(cycle.verify_ms),
      r: 3,
      class: cycle.prompt_rows > 0 ? 'dot-prompt' : 'dot-decode',
      'data-tip': `cycle ${cycle.number}, ${cycle.rows} rows\npredicted ${
          format(cycle.predicted_verify_ms)} ms, measured ${format(cycle.verify_ms)} ms`,
    }));
  }
  if (points.length === 0) hint(root, area, 'No verify calls yet');
}

// A line over equal intervals. A null is a gap. `base`: a value with a line of its own.
export function drawSparkline(host, values, base = undefined) {
  const width = host.clientWidth, height = host.clientHeight;
  host.setAttribute('viewBox', `0 0 ${width} ${height}`);
  host.replaceChildren();
  const top = Math.max(...values.map((value) => value ?? 0), base ?? 0, 1e-9) * 1.06;
  const x = (i) => (i / (values.length - 1)) * width;
  const y = (value) => height - 1 - (value / top) * (height - 2);
  if (base !== undefined) host.append(svg('line', {x1: 0, x2: width, y1: y(base), y2: y(base)}));
  let line = '', area = '', start = null;
  values.forEach((value, i) => {
    if (value === null) return;
    if (start === null) start = i;
    line += `${start === i ? 'M' : 'L'}${x(i)} ${y(value)}`;
    if (i + 1 < values.length && (values[i + 1] ?? null) !== null) return;
    // A value alone is a short line.
    if (start === i) line += `h1`;
    const points = values.slice(start, i + 1).map((v, k) => `L${x(start + k)} ${y(v)}`).join('');
    area += `M${x(start)} ${height}${points}L${x(i)} ${height}Z`;
    start = null;
  });
  host.append(
      svg('path', {class: 'area', d: area || 'M0 0'}),
      svg('path', {class: 'line', d: line || 'M0 0'}));
}

// An item of a legend: a colored square, a name and a value.
export function legendItem(style, name, value = '') {
  const item = document.createElement('li');
  const swatch = svg('svg', {viewBox: '0 0 10 10', 'aria-hidden': 'true'});
  swatch.append(svg('rect', {width: 10, height: 10, rx: 2.5, class: style}));
  item.append(swatch, name);
  if (value !== '') {
    const bold = document.createElement('b');
    bold.textContent = value;
    item.append(bold);
  }
  return item;
}
