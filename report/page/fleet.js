'use strict';
// The page of a fleet: a line a card, a column a case, dark where a card takes longer than its peers.
const byId = id => document.getElementById(id);
const heat = byId('heat');
const missing = -32768, unit = 1e-4; // a cell is the log of a ratio in these units
const mostLine = 18, leastLine = 2, listedCases = 20;
const map = {left: 0, width: 0, top: 4, line: 0, rows: [], cols: [], cursor: null, still: null};

const usual = {model: '0', time: 'common', cases: '', shown: 'all', order: 'verdict', full: '0.05', card: ''};
const state = {...usual};

// readState takes the state from the address. What makes no sense there is as usual.
function readState() {
  Object.assign(state, usual);
  for (const [key, value] of new URLSearchParams(location.hash.slice(1))) if (Object.hasOwn(usual, key)) state[key] = value;
  if (!data.models[state.model]) state.model = usual.model;
  for (const key of ['time', 'shown', 'order', 'full']) if (![...byId(key).options].some(o => o.value === state[key])) state[key] = usual[key];
}

function change(parts) {
  Object.assign(state, parts);
  const said = new URLSearchParams();
  for (const key in usual) if (state[key] !== usual[key]) said.set(key, state[key]);
  history.replaceState(null, '', '#' + said);
  draw();
}

const model = () => data.models[state.model];
const cells = () => column('cells-' + state.model + '-' + state.time);

// cell is the ratio of a card's case over its peers', NaN where there is none.
function cell(card, at) {
  const v = cells()[card * model().cases.length + at];
  return v === undefined || v === missing ? NaN : Math.exp(v * unit);
}

const percent = ratio => Number.isNaN(ratio) ? 'not measured' : (ratio < 1 ? '−' : '+') + (100 * Math.abs(ratio - 1)).toFixed(1) + ' %';
const cardName = c => c.host + ' ' + c.device;

// lineNames are names of lines as they fit: where they are too long, without what all have in common at either end. Numbers stay whole.
function lineNames(g, names, width) {
  if (names.length < 2 || names.every(n => g.measureText(n).width <= width)) return names;
  const first = names[0], least = Math.min(...names.map(n => n.length));
  let head = 0, tail = 0;
  while (head < least && names.every(n => n[head] === first[head])) head++;
  while (head > 0 && /[0-9]/.test(first[head - 1])) head--;
  while (tail < least - head && names.every(n => n[n.length - 1 - tail] === first[first.length - 1 - tail])) tail++;
  while (tail > 0 && /[0-9A-Za-z]/.test(first[first.length - tail])) tail--;
  return names.map(n => trimmed(g, (head ? '…' : '') + n.slice(head, n.length - tail) + (tail ? '…' : ''), width));
}

// arrange lists the lines and columns that are shown.
function arrange() {
  const m = model();
  map.rows = m.cards.map((_, i) => i).filter(i => state.shown === 'all' || m.cards[i].verdict === state.shown);
  if (state.order === 'host') map.rows.sort((a, b) => m.cards[a].host < m.cards[b].host ? -1 : m.cards[a].host > m.cards[b].host ? 1 : m.cards[a].device < m.cards[b].device ? -1 : 1);
  if (state.order === 'loss') map.rows.sort((a, b) => m.cards[b].loss - m.cards[a].loss);
  map.cols = m.cases.map((_, i) => i).filter(i => state.cases === '' || String(m.cases[i].series) === state.cases);
}

function draw() {
  const m = model(), width = byId('heatmap').clientWidth;
  for (const key of ['model', 'time', 'shown', 'order', 'full']) byId(key).value = state[key];
  fillCases();
  arrange();
  const n = map.rows.length;
  map.line = Math.max(leastLine, Math.min(mostLine, Math.floor(700 / Math.max(1, n))));
  const named = map.line >= 11;
  map.left = named ? Math.min(260, Math.round(width * 0.3)) : 12;
  map.width = Math.max(1, width - map.left - 8);
  const height = map.top + n * map.line + 22;
  const g = sized(heat, width, height), c = colours(), colour = ramp(), full = Number(state.full);
  g.font = '12px system-ui, sans-serif';
  g.textBaseline = 'middle';
  const names = named ? lineNames(g, map.rows.map(card => cardName(m.cards[card])), map.left - 24) : [];
  const columns = Math.floor(map.width), each = map.cols.length / columns, values = cells(), stride = m.cases.length;
  map.rows.forEach((card, row) => {
    const y = map.top + row * map.line;
    if (named) {
      g.fillStyle = state.card === m.cards[card].card ? c.mark : c.text;
      g.textAlign = 'right';
      g.fillText((state.card === m.cards[card].card ? '▸ ' : '') + names[row], map.left - 6, y + map.line / 2);
    } else if (m.cards[card].verdict === 'drain' || m.cards[card].verdict === 'watch') {
      g.fillStyle = m.cards[card].verdict === 'drain' ? c.confirmed : c.unconfirmed;
      g.fillRect(2, y, 7, map.line);
    }
    const gap = map.line > 6 ? 1 : 0;
    let from = 0, last;
    const flush = x => {
      if (x <= from || last === undefined) { from = x; return; }
      const ratio = last === missing ? 0 : Math.expm1(last * unit) / full;
      g.fillStyle = last === missing ? c.back : 'rgb(' + shade(ratio < 0 ? colour.down : colour.up, Math.abs(ratio)).join() + ')';
      g.fillRect(map.left + from, y, x - from, map.line - gap);
      from = x;
    };
    for (let x = 0; x < columns; x++) {
      // A column shows the one of its cases that differs most.
      let v = missing;
      for (let k = Math.floor(x * each); k < Math.max(Math.floor(x * each) + 1, Math.floor((x + 1) * each)) && k < map.cols.length; k++) {
        const at = values[card * stride + map.cols[k]];
        if (at !== undefined && at !== missing && (v === missing || Math.abs(at) > Math.abs(v))) v = at;
      }
      if (v !== last) { flush(x); last = v; }
    }
    flush(columns);
  });
  drawSeries(g, c, height);
  byId('key').textContent = 'Colour: time over that of peers, ' + (state.time === 'common' ? 'at the common clock' : 'in sustained time') +
    ': orange is slower, blue faster, full at ' + 100 * full + ' % and more.' + (named ? '' : ' Marks at the left are cards to drain or to watch.');
  byId('kept').textContent = m.cards.length < m.all ? 'The page has ' + m.cards.length + ' of ' + m.all + ' cards: those to drain or to watch, and the slowest of the others.' : '';
  map.still = g.getImageData(0, 0, heat.width, heat.height);
  drawCard();
  markCursor();
}

// drawSeries marks where series begin.
function drawSeries(g, c, height) {
  const m = model(), at = map.top + map.rows.length * map.line;
  g.fillStyle = c.faint;
  g.textAlign = 'left';
  let before = -1, free = 0;
  map.cols.forEach((col, k) => {
    if (m.cases[col].series === before) return;
    before = m.cases[col].series;
    const x = map.left + k / map.cols.length * map.width;
    g.fillRect(x, at, 1, 5);
    const text = trimmed(g, m.series[before], Math.max(40, map.width - (x - map.left) - 4));
    if (x >= free) { g.fillText(text, x + 3, height - 9); free = x + g.measureText(text).width + 12; }
  });
}

function markCursor() {
  if (!map.still) return;
  const g = heat.getContext('2d'), p = map.cursor;
  g.putImageData(map.still, 0, 0);
  if (!p || p.row >= map.rows.length || p.col >= map.cols.length) return;
  const wide = map.width / map.cols.length;
  g.strokeStyle = colours().mark;
  g.lineWidth = 2;
  g.strokeRect(map.left + p.col * wide - 1, map.top + p.row * map.line - 1, Math.max(4, wide + 1), map.line + 1);
  g.lineWidth = 1;
}

// describe is what is known of a cell.
function describe(p) {
  const m = model(), card = m.cards[map.rows[p.row]], at = map.cols[p.col], k = m.cases[at];
  return [cardName(card) + ': ' + card.verdict + (card.kind ? ', ' + card.kind : ''), m.series[k.series] + ' m' + k.m,
    percent(cell(map.rows[p.row], at)) + ' against its peers', k.us ? 'they take ' + k.us.toPrecision(4) + ' us' : ''].filter(Boolean);
}

function placeOf(event) {
  const box = heat.getBoundingClientRect();
  const row = Math.floor((event.clientY - box.top - map.top) / map.line), col = Math.floor((event.clientX - box.left - map.left) / map.width * map.cols.length);
  if (row < 0 || row >= map.rows.length || map.cols.length === 0) return null;
  return {row, col: Math.max(0, Math.min(map.cols.length - 1, col))};
}

// drawCard shows the card that is chosen.
function drawCard() {
  const m = model(), at = m.cards.findIndex(c => c.card === state.card), section = byId('card');
  section.hidden = at < 0;
  if (at < 0) return;
  const card = m.cards[at];
  byId('card-heading').textContent = cardName(card);
  byId('card-text').textContent = card.verdict + ': ' + card.reason;
  const facts = [['card', card.card], ['model', m.name], ['labels', card.labels], ['runs', String(card.runs)], ['since', card.since], ['at the common clock', card.common], ['sustained', card.sustained],
    ['clock, its peers\'', card.clock], ['power, its peers\'', card.power], ['temperature, its peers\'', card.temp], ['throttled, its peers', card.throttled]];
  byId('card-facts').replaceChildren(...facts.filter(f => f[1]).map(([name, text]) => {
    const pair = element('div');
    pair.append(element('dt', name), element('dd', text));
    return pair;
  }));
  const rows = m.cases.map((k, i) => [i, cell(at, i)]).filter(r => !Number.isNaN(r[1])).sort((a, b) => b[1] - a[1]).slice(0, listedCases);
  const head = element('tr');
  for (const name of ['series', 'M', 'against its peers', 'peers take us']) head.append(element('th', name, {scope: 'col', className: name === 'series' ? '' : 'right'}));
  byId('card-cases').tHead.replaceChildren(head);
  byId('card-cases').tBodies[0].replaceChildren(...rows.map(([i, ratio]) => {
    const tr = element('tr'), k = m.cases[i];
    tr.append(element('td', m.series[k.series]), element('td', String(k.m), {className: 'right'}), element('td', percent(ratio), {className: 'right'}), element('td', k.us ? k.us.toPrecision(4) : '', {className: 'right'}));
    return tr;
  }));
}

function choose(row, focus) {
  const card = model().cards[map.rows[row]];
  change({card: card.card});
  if (focus) byId('card-heading').focus();
  say(cardName(card) + ' is chosen: ' + card.verdict);
}

function setEvents() {
  heat.addEventListener('pointermove', e => {
    map.cursor = placeOf(e);
    markCursor();
    if (map.cursor) showTip(describe(map.cursor), e.clientX, e.clientY); else hideTip();
  });
  heat.addEventListener('pointerleave', () => { map.cursor = null; markCursor(); hideTip(); });
  heat.addEventListener('click', e => { const p = placeOf(e); if (p) choose(p.row, false); });
  heat.addEventListener('keydown', e => {
    if (!map.rows.length || !map.cols.length) return;
    const p = map.cursor || {row: 0, col: 0};
    const by = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -Infinity], End: [0, Infinity]}[e.key];
    if (by && map.cursor) {
      p.row = Math.max(0, Math.min(map.rows.length - 1, p.row + by[0]));
      p.col = Math.max(0, Math.min(map.cols.length - 1, p.col + by[1]));
    } else if (e.key === 'Enter') choose(p.row, true);
    else if (e.key === 'Escape') change({card: ''});
    else if (!by) return;
    e.preventDefault();
    map.cursor = p;
    markCursor();
    if (by) {
      const box = heat.getBoundingClientRect(), lines = describe(p);
      showTip(lines, box.left + map.left + (p.col + 0.5) / map.cols.length * map.width, box.top + map.top + (p.row + 1) * map.line);
      say(lines.join(', '));
    }
  });
  heat.addEventListener('blur', () => { map.cursor = null; markCursor(); hideTip(); });
}

// cellsAsCSV are the cells that are shown, a line a cell.
function cellsAsCSV() {
  const m = model(), out = ['host,device,card,verdict,series,m,ratio\n'];
  for (const i of map.rows) {
    const c = m.cards[i], head = [c.host, c.device, c.card, c.verdict].map(quoted).join(',');
    for (const at of map.cols) {
      const ratio = cell(i, at);
      if (!Number.isNaN(ratio)) out.push(head + ',' + quoted(m.series[m.cases[at].series]) + ',' + m.cases[at].m + ',' + ratio.toFixed(4) + '\n');
    }
  }
  return out;
}

// fillCases offers the series of the model that is shown.
function fillCases() {
  const select = byId('cases');
  if (select.dataset.model !== state.model) {
    select.replaceChildren(element('option', 'all', {value: ''}), ...model().series.map((s, i) => element('option', s, {value: String(i)})));
    select.dataset.model = state.model;
  }
  if (state.cases !== '' && !model().series[state.cases]) state.cases = '';
  select.value = state.cases;
}

function start() {
  if (!data.models.length) { byId('overview').hidden = true; return; }
  byId('model').append(...data.models.map((m, i) => element('option', m.name, {value: String(i)})));
  byId('shown').append(element('option', 'all', {value: 'all'}), ...['drain', 'watch', 'fine', 'unjudged'].map(v => element('option', v, {value: v})));
  for (const key of ['model', 'time', 'cases', 'shown', 'order', 'full']) byId(key).addEventListener('change', e => { map.cursor = null; change({[key]: e.target.value}); });
  byId('download').addEventListener('click', () => download('cells.csv', cellsAsCSV()));
  setEvents();
  readState();
  draw();
  window.addEventListener('hashchange', () => { readState(); draw(); });
  let wait = 0;
  const again = () => { cancelAnimationFrame(wait); wait = requestAnimationFrame(draw); };
  window.addEventListener('resize', again);
  dark.addEventListener('change', again);
  window.addEventListener('scroll', hideTip, {passive: true});
  window.addEventListener('beforeprint', draw);
  window.addEventListener('afterprint', draw);
}

start();
