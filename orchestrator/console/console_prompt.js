// The prompt box: sends a prompt and shows the answer while it arrives, each cycle in a shade.

import {format} from './console_charts.js';

const $ = (id) => document.getElementById(id);
let running = null;  // The AbortController of the answer that arrives.

function show(text, isBad = false) {
  $('outcome').textContent = text;
  $('outcome').dataset.state = isBad ? 'bad' : '';
}

function addSpan(style, text) {
  const span = document.createElement('span');
  span.className = style;
  span.textContent = text;
  $('answer').append(span);
  return span;
}

function addCycle(cycle, number) {
  const box = $('answer');
  const follows = box.scrollHeight - box.scrollTop - box.clientHeight < 30;
  const span = addSpan(number % 2 === 0 ? 'cycle even' : 'cycle', cycle.text);
  span.dataset.tip = [
    `cycle ${number}: ${cycle.tokens} ${cycle.tokens === 1 ? 'token' : 'tokens'} in ${
        format(cycle.ms)} ms`,
    `${cycle.nodes} nodes verified, ${cycle.accepted} accepted`,
    `tree ended by: ${cycle.reason.replace('_', ' ')}`
  ].join('\n');
  if (follows) box.scrollTop = box.scrollHeight;
}

function describeEnd(end) {
  return [
    `${end.tokens.toLocaleString('en-US')} tokens in ${end.cycles.toLocaleString('en-US')} cycles`,
    `${(end.tokens / end.cycles).toFixed(2)} tokens per cycle`,
    `${format(end.tokens_per_second ?? 0)} tokens/s`,
    `first token after ${format(end.first_token_ms)} ms`,
    end.reason === 'length' ? 'ended by the limit of tokens' : 'ended by the model', end.policy
  ].join(' · ');
}

// Calls `take` with each line of the response.
async function readLines(response, take) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    for (const line of lines) take(JSON.parse(line));
  }
}

async function ask(request, signal) {
  const response = await fetch('console/generate', {
    method: 'POST',
    headers: {'Content-Type': 'application/json'},
    body: JSON.stringify(request),
    signal,
  });
  let cycles = 0, ended = false;
  await readLines(response, (line) => {
    if (line.text !== undefined) {
      addCycle(line, ++cycles);
    } else if (line.started) {
      show(`answering a prompt of ${line.started.prompt_tokens.toLocaleString('en-US')} tokens …`);
    } else if (line.finished) {
      ended = true;
      show(describeEnd(line.finished));
    } else if (line.error) {
      ended = true;
      show(`${line.error.code}: ${line.error.message}`, true);
    }
  });
  if (!ended) show('The connection ended before the answer did.', true);
}

function setRunning(controller) {
  running = controller;
  $('send').disabled = controller !== null;
  $('stop').disabled = controller === null;
}

async function send(event) {
  event.preventDefault();
  if (running !== null) return;
  const prompt = $('prompt').value;
  const request = {
    [$('chat').checked ? 'message' : 'prompt']: prompt,
    max_new_tokens: Number($('max-tokens').value),
    temperature: Number($('temperature').value),
  };
  if ($('policy').value.trim() !== '') request.policy = $('policy').value.trim();
  $('answer').replaceChildren();
  addSpan('asked', $('chat').checked ? `${prompt}\n\n` : prompt);
  show('waiting …');
  setRunning(new AbortController());
  try {
    await ask(request, running.signal);
  } catch (error) {
    show(
        error.name === 'AbortError' ? 'Stopped.' : `The server did not answer: ${error.message}`,
        error.name !== 'AbortError');
  }
  setRunning(null);
}

// Offers chats if the model answers them.
export function offerChat(hasChat) {
  if ($('chat-label').hidden !== hasChat) return;
  $('chat-label').hidden = !hasChat;
  $('chat').checked = hasChat;
  showKind();
}

function showKind() {
  $('prompt').placeholder = $('chat').checked ? 'A question' : 'Text to continue';
}

export function startPrompt() {
  $('chat').addEventListener('change', showKind);
  $('prompt-form').addEventListener('submit', send);
  $('stop').addEventListener('click', () => running?.abort());
  $('prompt').addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) $('prompt-form').requestSubmit();
  });
}
