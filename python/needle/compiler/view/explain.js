// The page of `needle explain`. DATA has the functions: stages of their graphs, kernels, memory.
// The address says what is shown: page.html#function/stage/node.
'use strict';

const SVG = 'http://www.w3.org/2000/svg';
const WIDTH = 168, HEIGHT = 38, GAP = 20, LEVEL = 66;
const COLOURS = { product: '#3b6fd4', fused: '#2f8f5b', elementwise: '#55a07a', reduce: '#c9822b',
  layout: '#7d8597', other: '#8a5fb5', input: '#b0485c' };
const BOXES = ['#4c78a8', '#f58518', '#54a24b', '#e45756', '#72b7b2', '#b279a2', '#9d755d'];
const state = { f: 0, stage: 0, node: null };

function make(tag, attributes, parent, text) {
  const isShape = ['svg', 'g', 'rect', 'path', 'text', 'title', 'line'].includes(tag);
  const e = isShape ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
  if (text !== undefined) e.textContent = text;
  if (parent) parent.appendChild(e);
  return e;
}

const bytes = n => n >= 1e6 ? (n / 1e6).toFixed(2) + ' MB' : n >= 1e3 ? (n / 1e3).toFixed(1) + ' kB'
  : n + ' B';
const short = (s, n) => s.length > n ? s.slice(0, n - 1) + '…' : s;
const current = () => DATA[state.f];
const stageNodes = () => current().stages[state.stage].nodes;

// The graph: a level per node, one below its lowest input; in a level, near their inputs ---------

function layOut(nodes) {
  const levels = [];
  nodes.forEach(n => { n.x = undefined; });
  nodes.forEach(n => {
    n.level = n.ins.length ? 1 + Math.max(...n.ins.map(i => nodes[i].level)) : 0;
  });
  nodes.forEach((n, k) => {  // what needs nothing stands above the first that needs it
    if (n.ins.length || n.kind === 'input') return;
    const uses = nodes.filter(m => m.ins.includes(k)).map(m => m.level);
    n.level = uses.length ? Math.max(0, Math.min(...uses) - 1) : 0;
  });
  nodes.forEach(n => (levels[n.level] = levels[n.level] || []).push(n));
  levels.forEach(level => {
    const placed = n => n.ins.filter(i => nodes[i].x !== undefined);
    const mean = ins => ins.reduce((s, i) => s + nodes[i].x, 0) / ins.length;
    const wishes = new Map(level.map((n, k) =>
      [n, placed(n).length ? mean(placed(n)) : (k + 1) * (WIDTH + GAP)]));
    level.sort((a, b) => wishes.get(a) - wishes.get(b));
    let next = -Infinity, shift = 0;
    level.forEach(n => { n.x = Math.max(next, wishes.get(n)); next = n.x + WIDTH + GAP; });
    level.forEach(n => { shift += wishes.get(n) - n.x; });
    level.forEach(n => { n.x += shift / level.length; n.y = n.level * LEVEL; });
  });
}

function drawGraph() {
  const box = document.querySelector('.graph');
  box.textContent = '';
  const nodes = stageNodes();
  layOut(nodes);
  const svg = make('svg', {}, box);
  const all = make('g', { class: 'all' }, svg);
  nodes.forEach((n, to) => n.ins.forEach(from => {
    const a = nodes[from], x1 = a.x + WIDTH / 2, y1 = a.y + HEIGHT, x2 = n.x + WIDTH / 2, y2 = n.y;
    const m = (y1 + y2) / 2;
    make('path', { class: 'edge', 'data-from': from, 'data-to': to,
      d: `M${x1},${y1}C${x1},${m} ${x2},${m} ${x2},${y2}` }, all);
  }));
  nodes.forEach((n, k) => {
    const g = make('g', { class: 'node', 'data-node': k,
      transform: `translate(${n.x},${n.y})` }, all);
    make('rect', { width: WIDTH, height: HEIGHT, rx: 7, fill: COLOURS[n.kind] }, g);
    make('text', { x: 10, y: 16 }, g, short(n.name, 24));
    make('text', { x: 10, y: 30, class: 'type' }, g, short(n.outs.join(', '), 30));
    make('title', {}, g, n.name + ': ' + n.outs.join(', '));
    g.addEventListener('click', () => choose(k));
  });
  fit(svg, nodes, box);
  zoomable(svg, box);
}

let view = { x: 0, y: 0, w: 1000, h: 600 };
const show = svg => svg.setAttribute('viewBox', `${view.x} ${view.y} ${view.w} ${view.h}`);

function fit(svg, nodes, box) {
  const shape = box.clientHeight / Math.max(box.clientWidth, 1);
  const first = nodes[state.node === null ? 0 : state.node] || { x: 0, y: 0 };
  const w = 1250;
  view = { x: first.x + WIDTH / 2 - w / 2, y: state.node === null ? -GAP : first.y - w * shape / 2,
    w, h: w * shape };
  show(svg);
}

function zoomable(svg, box) {
  box.onwheel = e => {
    e.preventDefault();
    const r = box.getBoundingClientRect(), f = Math.exp(e.deltaY * 0.0015);
    const px = (e.clientX - r.left) / r.width, py = (e.clientY - r.top) / r.height;
    view.x += view.w * px * (1 - f);
    view.y += view.h * py * (1 - f);
    view.w *= f;
    view.h *= f;
    show(svg);
  };
  box.onpointerdown = e => {
    const start = { x: e.clientX, y: e.clientY, vx: view.x, vy: view.y };
    const r = box.getBoundingClientRect();
    box.onpointermove = m => {
      view.x = start.vx - (m.clientX - start.x) * view.w / r.width;
      view.y = start.vy - (m.clientY - start.y) * view.h / r.height;
      show(svg);
    };
    window.onpointerup = () => { box.onpointermove = null; };
  };
}

function choose(k) {
  state.node = k;
  document.querySelectorAll('.node').forEach(g => g.classList.toggle('on', +g.dataset.node === k));
  document.querySelectorAll('.edge').forEach(e => e.classList.toggle('on',
    k !== null && (+e.dataset.from === k || +e.dataset.to === k)));
  const n = k === null ? null : stageNodes()[k];
  document.querySelectorAll('.memory rect').forEach(r => r.classList.toggle('on',
    n !== null && n.values.includes(r.dataset.value)));
  details(n);
  const f = current();
  history.replaceState(null, '', `#${state.f}/${f.stages[state.stage].name}/${k === null ? '' : k}`);
}

function details(n) {
  const box = document.querySelector('.details');
  box.textContent = '';
  if (n === null) {
    make('p', {}, box, 'Click a node for its operator, source line, shapes and kernel. The wheel ' +
      'zooms, dragging moves.');
    return;
  }
  make('h3', {}, box, n.name);
  const list = make('dl', {}, box);
  const row = (name, value) => { make('dt', {}, list, name); make('dd', {}, list, value); };
  row('gives', n.outs.join(', '));
  if (n.reads.length) row('reads', n.reads.join(', '));
  if (n.source) row('source', n.source);
  if (n.line) make('pre', { class: 'line' }, box, n.line);
  make('pre', { class: 'call' }, box, n.text);
  if (n.kernel === null) return;
  const k = current().kernels[n.kernel];
  make('p', {}, box, `runs in kernel ${n.kernel}: ${k.name}` +
    (k.ms ? `, ${k.ms.toFixed(3)} ms (${(100 * k.share).toFixed(1)} %)` : ''));
  if (k.text !== n.text) make('pre', { class: 'code' }, box, k.text);
}

// Kernels, memory, and the frame around them ---------------------------------------------------

function drawKernels() {
  const table = document.querySelector('.kernels');
  table.textContent = '';
  const f = current(), timed = f.kernels.some(k => k.ms > 0);
  const head = make('tr', {}, table);
  ['call', ...(timed ? ['ms', 'share', '', 'of peak'] : []), 'kernel'].forEach(t =>
    make('th', {}, head, t));
  const order = f.kernels.map((k, i) => i).sort((a, b) => f.kernels[b].ms - f.kernels[a].ms);
  order.forEach(i => {
    const k = f.kernels[i], row = make('tr', { class: 'kernel' }, table);
    make('td', { class: 'n' }, row, i);
    if (timed) {
      make('td', { class: 'n' }, row, k.ms.toFixed(3));
      make('td', { class: 'n' }, row, (100 * k.share).toFixed(1) + ' %');
      const bar = make('td', {}, row);
      make('span', { class: 'bar', style: `width:${Math.max(160 * k.share, 1)}px` }, bar);
      make('td', { class: 'n' }, row, (100 * k.peak).toFixed(0) + ' %');
    }
    const cell = make('td', {}, row);
    make('b', {}, cell, k.name + ' ');
    make('span', { class: 'types' }, cell,
      short(k.outputs.join(', ') + ' from ' + (k.inputs.join(', ') || 'nothing'), 150));
    row.addEventListener('click', () => {
      const open = cell.querySelector('div');
      if (open) return open.remove();
      const more = make('div', {}, cell);
      make('pre', {}, more, k.text);
      make('span', { class: 'types' }, more, `${k.source} · ${bytes(k.bytes)}, ` +
        `${k.flops.toLocaleString()} operations`);
    });
  });
}

function drawMemory() {
  const box = document.querySelector('.memory'), m = current().memory;
  box.textContent = '';
  const w = 1200, h = 320, left = 74, bottom = 22;
  const svg = make('svg', { viewBox: `0 0 ${w} ${h + bottom}` }, box);
  const calls = Math.max(m.calls, 1), size = Math.max(m.bytes, 1);
  m.boxes.forEach((b, i) => {
    const height = Math.max(h * b.bytes / size, 0.6);
    const r = make('rect', { 'data-value': b.value, x: left + (w - left) * b.start / calls,
      y: h - h * b.offset / size - height, width: (w - left) * (b.end - b.start + 1) / calls,
      height, fill: BOXES[i % BOXES.length], 'fill-opacity': .85 }, svg);
    make('title', {}, r, `${b.value}: ${b.type}, ${bytes(b.bytes)}, calls ${b.start} to ${b.end}`);
    r.addEventListener('click', () => {
      const k = stageNodes().findIndex(n => n.values.includes(b.value));
      if (k >= 0) choose(k);
    });
  });
  make('text', { class: 'axis', x: 4, y: 14 }, svg, bytes(m.bytes));
  make('text', { class: 'axis', x: 4, y: h - 4 }, svg, '0');
  make('text', { class: 'axis', x: left, y: h + 16 }, svg, 'call 0');
  make('text', { class: 'axis', x: w - 70, y: h + 16 }, svg, `call ${m.calls - 1}`);
}

function drawButtons() {
  const functions = document.querySelector('.functions'), stages = document.querySelector('.stages');
  functions.textContent = stages.textContent = '';
  DATA.forEach((f, i) => {
    const b = make('button', i === state.f ? { class: 'on' } : {}, functions, f.name);
    b.addEventListener('click', () => open(i, DATA[i].stages.length - 1, null));
  });
  current().stages.forEach((s, i) => {
    const text = `${s.name}: ${s.nodes.filter(n => n.kind !== 'input').length} calls`;
    const b = make('button', i === state.stage ? { class: 'on' } : {}, stages, text);
    b.addEventListener('click', () => open(state.f, i, null));
  });
  const facts = document.querySelector('.facts');
  facts.textContent = '';
  current().facts.forEach(([name, value]) => {
    const d = make('div', {}, facts);
    make('b', {}, d, value);
    d.append(name);
  });
}

function open(f, stage, node) {
  Object.assign(state, { f, stage, node });
  drawButtons();
  drawGraph();
  drawKernels();
  drawMemory();
  choose(node);
}

function start() {
  const [f, stage, node] = location.hash.slice(1).split('/');
  const i = DATA[+f] ? +f : 0, names = DATA[i].stages.map(s => s.name);
  const s = names.includes(stage) ? names.indexOf(stage) : names.length - 1;
  open(i, s, node && DATA[i].stages[s].nodes[+node] ? +node : null);
}

start();
