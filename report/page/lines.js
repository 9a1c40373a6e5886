'use strict';
// The plot of the chosen series: the first with its interval, reference, findings and remedies.
let linePlot = null;
const lineRows = []; // for each x of the plot the row of the first series that is there, or -1

const plotHeight = () => Math.max(220, Math.min(380, Math.round(window.innerHeight * 0.42)));

// valueOf is the quantity of a row on the axis that is chosen; name is us, lo or hi.
function valueOf(row, name) {
  const us = column(name)[row];
  if (!(us > 0)) return null;
  return state.axis === 'us' ? us : orNull(column('mfu')[row] * column('us')[row] / us);
}
const orNull = v => Number.isFinite(v) ? v : null;

// tableOf is a series in a run as columns for uPlot.
function tableOf(series, run, withBand) {
  const b = block(series, run), out = withBand ? [[], [], [], [], []] : [[], []];
  if (!b) return out;
  for (let i = b.at; i < b.at + b.rows; i++) {
    if (ms[i] < state.from || ms[i] > state.to) continue;
    out[0].push(ms[i]);
    out[1].push(valueOf(i, 'us'));
    if (!withBand) continue;
    out[2].push(valueOf(i, state.axis === 'us' ? 'hi' : 'lo'));
    out[3].push(valueOf(i, state.axis === 'us' ? 'lo' : 'hi'));
    const expected = column('expected')[i], mfu = column('mfu')[i];
    out[4].push(!(expected > 0) ? null : state.axis === 'us' ? orNull(column('us')[i] * mfu / expected) : expected);
  }
  return out;
}

function drawLines() {
  const holder = document.getElementById('lines'), c = colours(), own = chosen();
  if (linePlot) linePlot.destroy();
  linePlot = null;
  holder.replaceChildren();
  if (!data.series.length || !holder.clientWidth) return;
  const first = own[0], newest = block(first) ? block(first).run : 0;
  const label = s => shortNames[s] || data.series[s].name;
  const tables = [], lines = [], few = tableOf(first, newest, false)[0].length <= 60;
  const add = (table, ...styles) => { tables.push(table); lines.push(...styles); };
  const line = (name, colour, more) => ({label: name, stroke: colour, width: 1.5, spanGaps: true, points: {show: few, size: 5, fill: colour}, ...more});
  const bound = {stroke: 'transparent', width: 0, points: {show: false}, spanGaps: true};
  add(tableOf(first, newest, true), line(label(first) + (isDiff ? ' in B' : ''), c.series[0]), {...bound, label: 'low'}, {...bound, label: 'high'},
    {label: isDiff ? '' : 'expected', stroke: c.text, width: 1, dash: [5, 4], spanGaps: true, points: {show: false}});
  if (isDiff && block(first, 0) && newest !== 0) add(tableOf(first, 0, false), line(label(first) + ' in A', c.series[1], {dash: [6, 3]}));
  own.slice(1).forEach((s, i) => add(tableOf(s, undefined, false), line(label(s), c.series[(i + 2) % 6])));
  const remedies = data.remedies.filter(r => r.series === first && r.m >= state.from && r.m <= state.to);
  if (remedies.length) {
    const sorted = [...new Map([...remedies].sort((a, b) => a.m - b.m).map(r => [r.m, r])).values()];
    const of = r => { const row = nearest(first, r.m); return state.axis === 'us' ? r.us : row >= 0 && ms[row] === r.m ? orNull(column('mfu')[row] * column('us')[row] / r.us) : null; };
    add([sorted.map(r => r.m), sorted.map(of)], {label: 'remedy, executed', stroke: c.good, width: 0, paths: () => null, points: {show: true, size: holder.clientWidth < 600 ? 5 : 8, width: 1.5, stroke: c.good, fill: 'transparent'}});
  }
  const joined = uPlot.join(tables);
  lineRows.length = 0;
  for (const m of joined[0]) { const row = nearest(first, m); lineRows.push(row >= 0 && ms[row] === m ? row : -1); }
  const caption = document.getElementById('lines-caption');
  if (!joined[0].length) { holder.append(element('p', 'No row of ' + data.series[first].name + ' lies in this interval of M.')); caption.textContent = ''; return; }
  const axis = {stroke: c.text, grid: {stroke: c.line, width: 1}, ticks: {stroke: c.line, width: 1}, font: '12px system-ui, sans-serif', labelFont: '12px system-ui, sans-serif'};
  const log = state.scale === 'log' && state.from > 0;
  linePlot = new uPlot({
    width: holder.clientWidth, height: plotHeight(), legend: {show: false}, focus: {alpha: 1},
    cursor: {drag: {x: true, y: false, setScale: false}, focus: {prox: -1}},
    scales: {x: {time: false, distr: log ? 3 : 1, log: 2, range: () => [state.from, Math.max(state.to, state.from + 1)]}, y: {range: (u, low, high) => state.axis === 'mfu' ? [0, Math.max(0.01, high * 1.06)] : [0, high * 1.06 || 1]}},
    axes: [{...axis, label: sizeName(first).toUpperCase(), labelSize: 20, size: 34, splits: () => ticks(Math.max(2, Math.floor(holder.clientWidth / 90))), filter: (u, v) => v, values: (u, v) => v.map(String)},
      {...axis, size: 58, label: state.axis === 'us' ? 'time of a launch, us' : 'MFU', labelSize: 18, values: (u, v) => v.map(x => state.axis === 'us' ? String(x) : +(100 * x).toFixed(1) + ' %')}],
    series: [{}, ...lines], bands: [{series: [3, 2], fill: c.series[0] + '40'}, {series: [2, 3], fill: c.series[0] + '40'}],
    hooks: {
      drawClear: [u => shadeFindings(u, first, c)],
      setCursor: [u => hoverLine(u, first)],
      setSelect: [u => {
        if (u.select.width < 4) return;
        const from = Math.max(range.from, Math.floor(u.posToVal(u.select.left, 'x'))), to = Math.min(range.to, Math.ceil(u.posToVal(u.select.left + u.select.width, 'x')));
        u.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
        if (to > from) change({from, to});
      }],
    },
  }, joined, holder);
  linePlot.over.addEventListener('click', () => {
    const row = linePlot.cursor.idx === null || linePlot.cursor.idx === undefined ? -1 : lineRows[linePlot.cursor.idx];
    if (row >= 0) showRow(row, false);
  });
  linePlot.over.addEventListener('pointerleave', hideTip);
  const names = lines.filter(l => l.label && l.label !== 'low' && l.label !== 'high');
  const legend = element('span', '', {className: 'legend'});
  for (const l of names) {
    const mark = element('span', l.dash ? '┅ ' : l.width === 0 ? '○ ' : '━ ');
    mark.style.color = typeof l.stroke === 'string' ? l.stroke : '';
    const item = element('span');
    item.append(mark, l.label);
    legend.append(item, ' ');
  }
  const series = data.series[first];
  caption.replaceChildren(legend, element('br'), series.name + (series.clock_mhz ? ', at ' + series.clock_mhz + ' MHz' : '') + '. MFU ' + series.peak + '. The band is the interval of each row; shaded are findings; bars at the top are those that hold the whole curve against another or a ceiling. Drag to zoom, click for the samples of a row.');
}

// shadeFindings fills the intervals of findings behind the lines.
function shadeFindings(u, series, c) {
  const g = u.ctx, dense = window.devicePixelRatio || 1;
  const bars = [], shades = new Map(), open = state.open.split('.');
  g.save();
  g.beginPath(); g.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height); g.clip();
  for (const f of data.findings) {
    if (f.series !== series || f.to < state.from || f.from > state.to) continue;
    const left = u.valToPos(Math.max(f.from, state.from), 'x', true) - 1.5 * dense, right = u.valToPos(Math.min(f.to, state.to), 'x', true) + 1.5 * dense;
    if (!barred.includes(f.rule)) {
      const key = (open.includes(f.at) ? 0.42 : 0.2) + ' ' + f.status;
      if (!shades.has(key)) shades.set(key, []);
      shades.get(key).push([left, right]);
      continue;
    }
    if (!bars.includes(f.rule)) bars.push(f.rule);
    g.globalAlpha = 0.9;
    g.fillStyle = statusColour(c, f.status);
    g.fillRect(left, u.bbox.top + 6 * dense * bars.indexOf(f.rule), right - left, 4 * dense);
  }
  // Findings of several rules on one interval darken it once.
  for (const [key, spans] of shades) {
    const [opacity, status] = key.split(' ');
    g.globalAlpha = Number(opacity);
    g.fillStyle = statusColour(c, status);
    let end = -Infinity;
    for (const [left, right] of spans.sort((a, b) => a[0] - b[0])) {
      const from = Math.max(left, end);
      if (right > from) g.fillRect(from, u.bbox.top, right - from, u.bbox.height);
      end = Math.max(end, right);
    }
  }
  g.restore();
}

function hoverLine(u, series) {
  const at = u.cursor.idx;
  if (at === null || at === undefined || u.cursor.left < 0) return;
  const m = u.data[0][at], row = lineRows[at];
  const lines = row >= 0 ? describe(row) : [sizeName(series) + ' ' + m];
  for (const r of data.remedies) if (r.series === series && r.m === m) lines.push('remedy ' + r.text + ': ' + microsText(r.us) + ', gain ' + r.gain + (r.pays ? '' : ', does not pay'));
  for (const f of data.findings) if (f.series === series && f.from <= m && m <= f.to) lines.push(f.rule + ', ' + f.status + (f.cause && f.cause !== 'unknown' ? ': ' + f.cause : ''));
  const box = u.over.getBoundingClientRect();
  showTip(lines, box.left + u.cursor.left, box.top + u.cursor.top);
}
