'use strict';
// The overview: a line a series, a column an interval of M, dark where much is lost.
const heat = document.getElementById('heat');
// mostLoss is the loss of the fullest colour: round, and about what the worst rows lose.
const mostLoss = (() => {
  const lost = column('loss').filter(v => v > 0.01).sort();
  const most = lost.length ? lost[Math.floor(0.98 * (lost.length - 1))] : 0;
  return [0.1, 0.2, 0.3].find(v => most <= v) || 0.5;
})();
const narrow = 9; // a frame of fewer pixels would hide what it is about
const heatMap = {left: 0, width: 0, top: 4, line: 18, axis: null, cursor: null};

const quantities = {
  loss: {name: 'loss', key: 'Colour: loss against the reference of the ' + (data.row_rule || '') + ' rule, from 0 (pale) to ' + 100 * mostLoss + ' % and more. Frames are findings of all rules: solid confirmed, dashed others; where they are narrow, bars at the top. Bars at the bottom are those that hold a whole curve against another or a ceiling.', of: row => Math.max(0, column('loss')[row] / mostLoss)},
  mfu: {name: 'MFU', key: 'Colour: MFU, from 0 (pale) to 100 %. Frames are findings.', of: row => column('mfu')[row], down: true},
  change: {name: 'B ÷ A', key: 'Colour: time of B ÷ time of A: orange is slower, blue faster, full at 20 % and more. Frames are findings that are new or fixed.', of: row => (column('ratio')[row] - 1) / 0.2},
};

function drawHeatmap() {
  const width = document.getElementById('heatmap').clientWidth, n = data.series.length;
  if (width === 0) return; // it is hidden, as of a run without rows
  const left = heatMap.left = n < 2 ? 8 : Math.min(240, Math.round(width * 0.3));
  heatMap.width = width - left - 8;
  heatMap.line = Math.max(14, Math.min(28, Math.round(420 / Math.max(1, n))));
  const height = heatMap.top + n * heatMap.line + 24;
  const g = sized(heat, width, height), c = colours(), axis = heatMap.axis = axisOf(left, heatMap.width);
  g.font = '12px system-ui, sans-serif';
  g.textBaseline = 'middle';
  const own = chosen();
  const quantity = quantities[state.quantity] || quantities.loss;
  for (let s = 0; s < n; s++) {
    const y = heatMap.top + s * heatMap.line;
    if (n > 1) {
      g.fillStyle = own.includes(s) ? c.mark : c.text;
      g.textAlign = 'right';
      g.fillText((own.includes(s) ? '▸ ' : '') + trimmed(g, shortNames[s], left - 24), left - 6, y + heatMap.line / 2);
    }
    drawLine(g, s, y + 1, heatMap.line - 2, axis, quantity);
  }
  g.save();
  g.beginPath(); g.rect(left, 0, heatMap.width, height - 20); g.clip();
  for (const f of data.findings) {
    if (isDiff && f.change !== 'new' && f.change !== 'fixed') continue;
    const x = axis.at(f.from) - 2, right = axis.at(f.to) + 2, y = heatMap.top + f.series * heatMap.line;
    g.strokeStyle = g.fillStyle = statusColour(c, f.status);
    if (barred.includes(f.rule)) { g.fillRect(x, y + heatMap.line - 4, Math.max(3, right - x), 3); continue; }
    if (right - x < narrow) { g.fillRect(x, y + 1, Math.max(3, right - x), f.status === 'confirmed' ? 4 : 2); continue; }
    g.setLineDash(f.status === 'confirmed' ? [] : [3, 2]);
    g.strokeRect(x + 0.5, y + 0.5, Math.max(3, right - x), heatMap.line - 1);
  }
  g.restore();
  g.setLineDash([]);
  g.fillStyle = c.text;
  g.textAlign = 'center';
  for (const m of ticks(Math.max(2, Math.floor(heatMap.width / 70)))) {
    const x = axis.at(m);
    if (x < left + 8) continue;
    g.textAlign = x > width - 24 ? 'right' : 'center';
    g.fillText(String(m), x > width - 24 ? width - 2 : x, height - 9);
    g.fillRect(x, heatMap.top + n * heatMap.line, 1, 4);
  }
  document.getElementById('key').textContent = quantity.key;
  heatMap.still = g.getImageData(0, 0, heat.width, heat.height);
  markCursor();
}

// drawLine fills the columns of a series: each shows the worst of its rows, and a row reaches halfway
// to its neighbours.
function drawLine(g, series, y, height, axis, quantity) {
  const b = block(series), colour = ramp(), left = heatMap.left, n = Math.floor(heatMap.width);
  if (!b || n < 1) return;
  const worst = new Float32Array(n).fill(NaN), hatched = new Uint8Array(n);
  for (let i = b.at; i < b.at + b.rows; i++) {
    const m = ms[i], before = i > b.at ? (ms[i - 1] + m) / 2 : m - 0.5, behind = i + 1 < b.at + b.rows ? (m + ms[i + 1]) / 2 : m + 0.5;
    if (behind < state.from || before > state.to) continue;
    const from = Math.max(0, Math.floor(axis.at(before) - left)), to = Math.min(n - 1, Math.max(from, Math.ceil(axis.at(behind) - left) - 1));
    const v = quantity.of(i);
    for (let x = from; x <= to; x++) {
      if (Number.isNaN(v)) { if (Number.isNaN(worst[x])) hatched[x] = 1; continue; }
      if (Number.isNaN(worst[x]) || (quantity.down ? v < worst[x] : Math.abs(v) > Math.abs(worst[x]) || v > worst[x] && v > 0 && worst[x] < 0)) worst[x] = v;
    }
  }
  for (let x = 0; x < n;) {
    let to = x + 1;
    const v = worst[x], bare = hatched[x];
    while (to < n && (worst[to] === v || Number.isNaN(v) && Number.isNaN(worst[to]) && hatched[to] === bare)) to++;
    if (!Number.isNaN(v) || bare) {
      const paint = Number.isNaN(v) ? colour.up[0] : shade(quantity.down || v < 0 ? colour.down : colour.up, Math.abs(v));
      g.fillStyle = 'rgb(' + paint.join() + ')';
      g.fillRect(left + x, y, to - x, height);
    }
    x = to;
  }
}

// markCursor draws what follows the pointer over the still picture.
function markCursor() {
  if (!heatMap.still) return;
  const g = heat.getContext('2d');
  g.putImageData(heatMap.still, 0, 0);
  const c = colours(), p = heatMap.cursor;
  if (heatMap.drag) {
    g.fillStyle = c.mark;
    g.globalAlpha = 0.25;
    g.fillRect(Math.min(heatMap.drag.from, heatMap.drag.to), heatMap.top, Math.abs(heatMap.drag.to - heatMap.drag.from), data.series.length * heatMap.line);
    g.globalAlpha = 1;
  }
  if (!p) return;
  const x = heatMap.axis.at(ms[p.row]), y = heatMap.top + p.series * heatMap.line;
  g.strokeStyle = c.mark;
  g.lineWidth = 2;
  g.strokeRect(x - 3, y, 6, heatMap.line);
  g.lineWidth = 1;
}

function heatPlace(event) {
  const box = heat.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
  const series = Math.floor((y - heatMap.top) / heatMap.line);
  if (series < 0 || series >= data.series.length) return null;
  return {x, series, row: nearest(series, heatMap.axis.m(Math.max(x, heatMap.left)))};
}

function setHeatEvents() {
  heat.addEventListener('pointermove', e => {
    const p = heatPlace(e);
    if (heatMap.drag) heatMap.drag.to = Math.max(heatMap.left, Math.min(heatMap.left + heatMap.width, e.clientX - heat.getBoundingClientRect().left));
    heatMap.cursor = p && p.row >= 0 ? p : null;
    markCursor();
    if (heatMap.cursor) showTip(describe(p.row), e.clientX, e.clientY); else hideTip();
  });
  heat.addEventListener('pointerleave', () => { heatMap.cursor = null; markCursor(); hideTip(); });
  heat.addEventListener('pointerdown', e => {
    const p = heatPlace(e);
    if (!p || e.button !== 0) return;
    heat.setPointerCapture(e.pointerId);
    heatMap.drag = {from: Math.max(p.x, heatMap.left), to: Math.max(p.x, heatMap.left), start: p};
  });
  heat.addEventListener('pointercancel', () => { heatMap.drag = null; markCursor(); });
  heat.addEventListener('pointerup', e => {
    const d = heatMap.drag;
    heatMap.drag = null;
    if (!d) return;
    if (Math.abs(d.to - d.from) > 5) {
      const a = heatMap.axis.m(Math.min(d.from, d.to)), b = heatMap.axis.m(Math.max(d.from, d.to));
      const from = Math.max(range.from, Math.floor(a)), to = Math.min(range.to, Math.ceil(b));
      const own = chosen().includes(d.start.series) ? {} : {series: String(d.start.series)};
      if (to > from) return change({from, to, ...own});
    }
    if (d.start.row < 0) return;
    choose(d.start.series, e.shiftKey);
    if (!e.shiftKey && d.start.x >= heatMap.left) showRow(d.start.row, false);
  });
  heat.addEventListener('keydown', e => {
    const p = heatMap.cursor || {series: chosen()[0], row: nearest(chosen()[0], state.from)};
    const b = block(p.series), wide = state.to - state.from;
    const step = {ArrowLeft: -1, ArrowRight: 1}[e.key], line = {ArrowUp: -1, ArrowDown: 1}[e.key];
    if (step) p.row = Math.max(b.at, Math.min(b.at + b.rows - 1, p.row + step));
    else if (line) {
      const series = Math.max(0, Math.min(data.series.length - 1, p.series + line));
      p.row = nearest(series, ms[p.row]); p.series = series;
    } else if (e.key === 'Enter') { choose(p.series, false); showRow(p.row, true); }
    else if (e.key === ' ') choose(p.series, true);
    else if (e.key === '+' || e.key === '=') change({from: Math.max(range.from, Math.floor(ms[p.row] - wide / 4)), to: Math.min(range.to, Math.ceil(ms[p.row] + wide / 4))});
    else if (e.key === '-') change({from: Math.max(range.from, Math.floor(state.from - wide / 2)), to: Math.min(range.to, Math.ceil(state.to + wide / 2))});
    else if (e.key === 'Escape') change({from: range.from, to: range.to});
    else return;
    e.preventDefault();
    if (p.row < 0) return;
    heatMap.cursor = p;
    markCursor();
    if (step || line) {
      const box = heat.getBoundingClientRect(), lines = describe(p.row);
      showTip(lines, box.left + heatMap.axis.at(ms[p.row]), box.top + heatMap.top + (p.series + 1) * heatMap.line);
      say(lines.join(', '));
    }
  });
  heat.addEventListener('blur', hideTip);
}

// choose makes a series the one that is plotted, or adds it to those that are, or takes it away.
function choose(series, besides) {
  let own = chosen();
  if (!besides) own = [series];
  else if (own.includes(series)) own = own.length > 1 ? own.filter(s => s !== series) : own;
  else own = [...own, series].slice(-6);
  change({series: own.join('.')});
}
