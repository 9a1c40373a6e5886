'use strict';
// The samples of one row: over time with clock and power, and the product as it is beside its remedies.
let timePlots = [];

function showRow(row, focus) {
  change({row: seriesOf(row) + '.' + ms[row]});
  const section = document.getElementById('row');
  if (focus) document.getElementById('row-heading').focus();
  section.scrollIntoView({block: 'nearest'});
}

function drawRow() {
  const section = document.getElementById('row');
  for (const p of timePlots) p.destroy();
  timePlots = [];
  document.getElementById('times').replaceChildren();
  const [series, m] = state.row.split('.').map(Number);
  const known = state.row !== '' && data.series[series] && Number.isInteger(m) ? nearest(series, m) : -1;
  section.hidden = known < 0 || ms[known] !== m;
  if (section.hidden) return;
  document.getElementById('row-heading').textContent = 'Row m ' + m + ' of ' + shortNames[series];
  document.getElementById('row-text').textContent = describe(known).slice(2).join(' · ');
  const rows = data.series[series].blocks.map(b => nearest(series, m, b.run)).filter(r => r >= 0 && ms[r] === m);
  drawTimes(rows);
  drawSpread(series, m, rows);
}

// drawTimes plots time, clock and power of the samples, each on a plot of its own, over one axis.
function drawTimes(rows) {
  const holder = document.getElementById('times'), caption = document.getElementById('times-caption'), c = colours();
  const all = rows.map(samplesOf).map((s, i) => ({...s, run: i}));
  // Where nobody has told when samples were taken, they stand in their order.
  const timed = all.some(s => s.time.some(t => t > 0));
  if (!timed) for (const s of all) s.time = Float32Array.from(s.us, (_, i) => i + 1);
  const count = all.reduce((n, s) => n + s.us.length, 0);
  if (count === 0) {
    caption.textContent = quantilesOf(rows[rows.length - 1]) ? 'Samples of this row are not in the page, only their quantiles.' : 'This row has no samples: ' + (isInferred(rows[0]) ? 'it is inferred.' : 'it failed, or was not measured.');
    return;
  }
  const axis = {stroke: c.text, grid: {stroke: c.line, width: 1}, ticks: {stroke: c.line, width: 1}, font: '12px system-ui, sans-serif', labelFont: '12px system-ui, sans-serif'};
  const plot = (name, scale, height, last) => {
    const tables = all.map(s => [Array.from(s.time), Array.from(s[name], v => v > 0 ? v * scale.by : null)]);
    if (!tables.some(t => t[1].some(v => v !== null))) return;
    const order = t => { const at = t[0].map((_, i) => i).sort((a, b) => t[0][a] - t[0][b]); return t.map(x => at.map(i => x[i])); };
    const joined = tables.length > 1 ? uPlot.join(tables.map(order)) : order(tables[0]);
    const u = new uPlot({
      width: holder.clientWidth, height, legend: {show: false}, cursor: {drag: {x: false, y: false}, sync: {key: 'samples'}},
      scales: {x: {time: false, range: (u, low, high) => high > low ? [low - 0.02 * (high - low), high + 0.02 * (high - low)] : [low - 1, high + 1]},
        y: {range: (u, low, high) => high > low ? [low - 0.1 * (high - low), high + 0.1 * (high - low)] : [low * 0.98, high * 1.02]}},
      axes: [{...axis, size: last ? 34 : 18, label: last ? (timed ? 'seconds since the first sample of the run' : 'sample') : undefined, labelSize: 18, values: last ? undefined : () => []}, {...axis, size: 62, label: scale.label, labelSize: 18}],
      series: [{}, ...tables.map((t, i) => ({label: scale.label, stroke: c.series[(tables.length - 1 - i) % 6], paths: () => null, points: {show: true, size: 7, fill: c.series[(tables.length - 1 - i) % 6]}}))],
      hooks: {setCursor: [u => {
        const at = u.cursor.idx;
        if (at === null || at === undefined || u.cursor.left < 0) return;
        const lines = [];
        for (const s of all) {
          const i = s.time.indexOf(u.data[0][at]);
          if (i < 0) continue;
          lines.push((isDiff ? (s.run === 0 && all.length > 1 ? 'A: ' : 'B: ') : '') + microsText(s.us[i]), (timed ? s.time[i].toFixed(1) + ' s' : 'sample ' + s.time[i]) + (s.clock[i] ? ', ' + s.clock[i] + ' MHz' : '') + (s.power[i] ? ', ' + s.power[i] / 10 + ' W' : ''));
          if (s.state[i]) lines.push(data.conditions[s.state[i]]);
        }
        if (!u.over.matches(':hover')) return;
        const box = u.over.getBoundingClientRect();
        showTip(lines, box.left + u.cursor.left, box.top + u.cursor.top);
      }]},
    }, joined, holder);
    u.over.addEventListener('pointerleave', hideTip);
    timePlots.push(u);
  };
  const has = name => all.some(s => s[name].some(v => v > 0));
  plot('us', {by: 1, label: 'time, us'}, has('clock') || has('power') ? 170 : 260, !has('clock') && !has('power'));
  plot('clock', {by: 1, label: 'clock, MHz'}, has('power') ? 120 : 150, !has('power'));
  plot('power', {by: 0.1, label: 'power, W'}, 150, true);
  const states = [...new Set(all.flatMap(s => Array.from(s.state)))].filter(i => i).map(i => data.conditions[i]);
  caption.textContent = count + (timed ? ' samples over time' : ' samples in order') + (has('clock') ? ', with clock' : '') + (has('power') ? ' and power' : '') + (states.length ? '. Slowed by: ' + states.slice(0, 4).join('; ') : '') + '.';
}

// drawSpread draws one line of dots a group: the sweep's samples, what was timed in turns with remedies, each remedy.
function drawSpread(series, m, rows) {
  const canvas = document.getElementById('spread-canvas'), caption = document.getElementById('spread-caption');
  const groups = rows.map((r, i) => ({name: rows.length > 1 ? (i ? 'B' : 'A') : 'sweep', us: Array.from(samplesOf(r).us).filter(v => v > 0), quantiles: quantilesOf(r)}));
  for (const e of data.executed) if (e.series === series && e.m === m) groups.push({name: e.text || 'direct', us: e.us, remedy: e.text !== ''});
  const values = groups.flatMap(x => [...x.us, ...(x.quantiles || [])]);
  canvas.hidden = values.length === 0;
  caption.textContent = '';
  if (canvas.hidden) return;
  const c = colours(), width = document.getElementById('spread').clientWidth, line = 64, left = 96, height = groups.length * line + 30, g = sized(canvas, width, height);
  let low = Math.min(...values), high = Math.max(...values);
  const room = (high - low || low * 0.02) * 0.05;
  low -= room; high += room;
  const at = v => left + (v - low) / (high - low) * (width - left - 14);
  g.font = '12px system-ui, sans-serif';
  g.textBaseline = 'middle';
  groups.forEach((x, i) => {
    const y = i * line + line / 2 + 6, sorted = [...x.us].sort((a, b) => a - b);
    const q = x.quantiles || (sorted.length ? [0, 0.25, 0.5, 0.75, 1].map(p => sorted[Math.round(p * (sorted.length - 1))]) : null);
    g.fillStyle = c.text;
    g.textAlign = 'right';
    g.fillText(trimmed(g, x.name, left - 10), left - 8, y);
    if (!q) return;
    const colour = x.remedy ? c.good : c.series[0];
    g.fillStyle = colour;
    g.globalAlpha = 0.25;
    g.fillRect(at(q[1]), y - 14, Math.max(1, at(q[3]) - at(q[1])), 28);
    g.globalAlpha = 0.8;
    x.us.forEach((v, k) => { g.beginPath(); g.arc(at(v), y - 10 + (k * 7) % 21, 2.5, 0, 7); g.fill(); });
    g.globalAlpha = 1;
    g.fillRect(at(q[2]) - 1, y - 18, 2, 36);
    g.fillStyle = c.text;
    g.textAlign = at(q[2]) > width - 80 ? 'right' : 'left';
    g.fillText(significant(q[2], 4), at(q[2]) + (at(q[2]) > width - 80 ? -5 : 5), y - 22);
  });
  g.textAlign = 'center';
  g.fillStyle = c.text;
  for (let i = 0; i < 3; i++) {
    const v = low + (high - low) * (0.1 + 0.4 * i);
    g.fillText(significant(v, 4), at(v), height - 10);
    g.fillRect(at(v), height - 24, 1, 5);
  }
  const text = groups.map(x => x.name + ' ' + x.us.length).join(', ');
  canvas.setAttribute('aria-label', 'Distributions of time: ' + text + ' samples');
  caption.textContent = 'Times in us: each dot a sample, the box half of them, the bar the median. ' + (groups.some(x => x.remedy) ? 'The remedy ran in turns with direct. ' : '') + 'Samples: ' + text + '.';
}
