// The console's page: polls the state of the service and shows it.

import * as charts from './console_charts.js';
import {offerChat, startPrompt} from './console_prompt.js';
import {drawRequests, drawTreeLegend, hasEnded} from './console_requests.js';

const POLL_MS = 500;
const TIMEOUT_MS = 5000;
const KEPT_CYCLES = 480;
const MODES = {
  drafted: 'trees from the drafter',
  draft_free: 'trees without a draft',
  plain: 'decoding without trees',
  resting: 'plain, without planning',
  prompts: 'prompts only',
};

const $ = (id) => document.getElementById(id);
let run = null;    // The run of the service that `cycles` are from.
let last = 0;      // The number of the last cycle that was received.
let cycles = [];   // Objects, oldest first.
let state = null;  // The last response.
let timer = null;

function setStatus(name, text) {
  $('status').dataset.state = name;
  $('status-text').textContent = text;
  document.body.classList.toggle('lost', name === 'lost');
}

// The lists of the response as objects.
function toCycles(lists) {
  return lists.number.map((_, i) => {
    const cycle = {};
    for (const [field, values] of Object.entries(lists)) cycle[field] = values[i];
    cycle.total = charts.STAGES.reduce((sum, stage) => sum + cycle[`${stage}_ms`], 0);
    return cycle;
  });
}

function take(response) {
  if (run !== null && run !== response.run) {
    // The service has restarted. Its cycles are numbered from 1 again, and all of them are new.
    cycles = [];
    last = 0;
  }
  run = response.run;
  const added = toCycles(response.cycles).filter((cycle) => cycle.number > last);
  cycles = cycles.concat(added).slice(-KEPT_CYCLES);
  if (added.length > 0) last = added.at(-1).number;
  state = response;
}

function drawTiles() {
  const {service, history} = state;
  const values = history.tokens.slice(0, -1).map((tokens) => tokens / history.interval_s);
  const decoded = history.committed_lengths.some((count) => count > 0);
  $('rate').textContent = charts.format(history.tokens_per_second);
  $('speedup').textContent =
      cycles.some((cycle) => cycle.requests > 0) ? `${state.speedup.toFixed(2)}×` : '–';
  charts.drawSparkline($('rate-spark'), values);
  charts.drawSparkline($('tau-spark'), history.committed_length.slice(0, -1));
  charts.drawSparkline($('speedup-spark'), history.speedup.slice(0, -1), 1);
  $('tau').textContent = decoded ? history.mean_committed_length.toFixed(2) : '–';
  $('running').textContent = service.running;
  const parked = service.parked > 0 ? `, ${service.parked} parked` : '';
  const preempted = service.preemptions > 0 ? `, ${service.preemptions} preempted` : '';
  $('waiting').textContent = `${service.waiting} waiting${parked}${preempted}`;
  $('kv').textContent = service.ready ? service.kv_pages_free.toLocaleString('en-US') : '–';
  $('kv-note').textContent = service.ready ? `of ${service.kv_pages.toLocaleString('en-US')}` : '–';
  $('kv-tile').dataset.tip =
      `A page holds ${service.kv_page_tokens} tokens. Cached prefixes count as free.`;
  $('kv-meter').style.width =
      service.kv_pages > 0 ? `${100 * service.kv_pages_free / service.kv_pages}%` : '0';
  drawDrafter(service);
  drawMode();
}

// The mode of most of the shown cycles.
function drawMode() {
  const counts = new Map();
  for (const {mode} of cycles.slice(-charts.BARS)) counts.set(mode, (counts.get(mode) ?? 0) + 1);
  const modes = [...counts].sort((a, b) => b[1] - a[1]);
  const isIdle = modes.length === 0 || state.idle_ms > 2000;
  const percent = (count) => `${Math.round(100 * count / Math.min(charts.BARS, cycles.length))} %`;
  $('mode').textContent = isIdle ? 'idle' : modes[0][0].replace('_', '-');
  $('mode-note').textContent = isIdle ?
      'no request is served' :
      `${percent(modes[0][1])} of ${Math.min(charts.BARS, cycles.length)} cycles`;
  $('mode-tile').dataset.tip = isIdle ?
      '' :
      modes.map(([mode, count]) => `${mode.replace('_', '-')}: ${percent(count)} (${MODES[mode]})`)
          .join('\n');
}

function drawDrafter(service) {
  const [text, style] = service.drafter === '' ? ['none', ''] :
      service.drafts_succeed                   ? ['connected', 'good'] :
                                                 ['no drafts', 'bad'];
  $('drafter').textContent = text;
  $('drafter').dataset.state = style;
  $('drafter-note').textContent =
      service.drafter === '' ? 'trees from the prior only' : service.drafter;
  $('drafter-note').dataset.tip = service.drafter;
}

// Draws unless the pointer is over the element: what a user looks at should not move away.
function draw(host, note, text, drawing) {
  const isPaused = host.matches(':hover');
  $(note).textContent = isPaused ? 'paused while you point at it' : text;
  if (!isPaused) drawing();
}

function drawCharts() {
  const shown = cycles.slice(-charts.BARS);
  draw(
      $('bars'), 'bars-note',
      shown.length > 0 ? `the last ${shown.length} cycles, with the mean of each stage` : '',
      () => {
        charts.drawBars($('bars'), cycles);
        const mean = (stage) =>
            shown.reduce((sum, cycle) => sum + cycle[`${stage}_ms`], 0) / shown.length;
        $('bars-legend')
            .replaceChildren(...charts.STAGES.map(
                (stage) => charts.legendItem(
                    stage, charts.STAGE_NAMES[stage],
                    shown.length > 0 ? `${mean(stage).toFixed(2)} ms` : '')));
      });
  const counts = state.history.committed_lengths;
  draw(
      $('lengths'), 'lengths-note', 'the last 60 s',
      () => charts.drawLengths($('lengths'), counts));
  const errors =
      cycles.filter((cycle) => cycle.verify_ms > 0)
          .map((cycle) => Math.abs(cycle.predicted_verify_ms - cycle.verify_ms) / cycle.verify_ms);
  const note =
      errors.length > 0 ? `median error ${Math.round(100 * charts.median(errors))} %` : '';
  draw($('scatter'), 'scatter-note', note, () => charts.drawScatter($('scatter'), cycles));
}

function drawTable() {
  const active = state.requests.filter((request) => !hasEnded(request)).length;
  const hidden = Math.max(0, state.service.running - active);
  const text = `${active} running, ${state.requests.length - active} ended in the last 10 s` +
      (hidden > 0 && active >= 32 ? `, ${hidden} more not shown` : '') +
      (state.shows_text ? '' : ' · trees have no text without --show_text');
  draw($('requests'), 'requests-note', text, () => {
    drawRequests($('requests'), state.requests);
    $('no-requests').hidden = state.requests.length > 0;
    $('requests-card').classList.toggle('nothing', state.requests.length === 0);
  });
}

function drawAll() {
  if (state === null) return;
  $('model').textContent = state.model;
  $('device').textContent = state.service.device;
  $('footer').textContent =
      `bastion ${state.version} · policy of requests that name none: ${state.policy}`;
  $('policy').placeholder = state.policy;
  offerChat(state.has_chat);
  drawTiles();
  drawCharts();
  drawTable();
}

async function poll() {
  timer = null;
  try {
    const response = await fetch(
        `console/state?after=${last}`,
        {cache: 'no-store', signal: AbortSignal.timeout(TIMEOUT_MS)});
    if (!response.ok) throw new Error(`status ${response.status}`);
    take(await response.json());
    if (state.service.ready) {
      setStatus('live', 'live');
    } else {
      setStatus('starting', 'waiting for the verifier');
    }
    drawAll();
  } catch (error) {
    console.info('no state:', error.message);
    setStatus('lost', 'the server does not answer; trying again');
  }
  schedule(POLL_MS);
}

// Polls after `delay` milliseconds, unless the tab is hidden.
function schedule(delay) {
  if (timer !== null) clearTimeout(timer);
  timer = document.hidden ? null : setTimeout(poll, delay);
}

function startTips() {
  const tip = $('tip');
  document.addEventListener('pointermove', (event) => {
    const target = event.target.closest?.('[data-tip]');
    tip.hidden = !target || target.dataset.tip === '';
    if (tip.hidden) return;
    tip.textContent = target.dataset.tip;
    const right = event.clientX + 14 + tip.offsetWidth > window.innerWidth;
    const below = event.clientY + 16 + tip.offsetHeight > window.innerHeight;
    tip.style.left =
        `${Math.max(4, right ? event.clientX - 12 - tip.offsetWidth : event.clientX + 14)}px`;
    tip.style.top =
        `${Math.max(4, below ? event.clientY - 12 - tip.offsetHeight : event.clientY + 16)}px`;
  });
  document.documentElement.addEventListener('pointerleave', () => {
    tip.hidden = true;
  });
}

const MODE_ITEMS = [
  charts.legendItem('dot-decode', 'decoding'),
  charts.legendItem('dot-prompt', 'with rows of prompts')
];
$('scatter-legend').replaceChildren(...MODE_ITEMS);
drawTreeLegend($('tree-legend'));
charts.drawBars($('bars'), []);
charts.drawLengths($('lengths'), new Array(17).fill(0));
charts.drawScatter($('scatter'), []);
startPrompt();
startTips();
addEventListener('resize', drawAll);
document.addEventListener('visibilitychange', () => schedule(0));
poll();
