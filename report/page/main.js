'use strict';
// What starts the page, and what is drawn again when a part of the state changes.
const parts = {
  heatmap: {draw: drawHeatmap, by: ['series', 'from', 'to', 'quantity', 'scale']},
  lines: {draw: drawLines, by: ['series', 'from', 'to', 'scale', 'axis', 'open']},
  row: {draw: drawRow, by: ['row']},
  findings: {draw: drawFindings, by: ['sort', 'order', 'open', ...filters]},
};

function draw(changed) {
  for (const part of Object.values(parts)) if (!changed || part.by.some(k => changed.includes(k))) part.draw();
  document.getElementById('quantity').value = state.quantity;
  document.getElementById('scale').value = state.scale;
  document.getElementById('axis').value = state.axis;
  document.getElementById('series').value = String(chosen()[0]);
  document.getElementById('compare').value = chosen().length > 1 ? String(chosen()[1]) : '';
}

function start() {
  const quantity = document.getElementById('quantity');
  for (const key of isDiff ? ['change', 'mfu'] : ['loss', 'mfu']) quantity.append(element('option', quantities[key].name, {value: key}));
  const options = () => data.series.map((s, i) => element('option', s.name, {value: String(i)}));
  document.getElementById('series').append(...options());
  document.getElementById('compare').append(element('option', 'nothing', {value: ''}), ...options());
  for (const key of ['quantity', 'scale', 'axis']) document.getElementById(key).addEventListener('change', e => change({[key]: e.target.value}));
  document.getElementById('series').addEventListener('change', e => change({series: e.target.value}));
  document.getElementById('compare').addEventListener('change', e => change({series: chosen()[0] + (e.target.value && e.target.value !== String(chosen()[0]) ? '.' + e.target.value : '')}));
  document.getElementById('whole').addEventListener('click', () => change({from: range.from, to: range.to}));
  document.getElementById('link').addEventListener('click', e => copyText(location.href, e.target, 'Link copied', 'The address bar has the link'));
  document.getElementById('download-rows').addEventListener('click', () => download('rows.csv', rowsAsCSV()));
  document.getElementById('download-samples').addEventListener('click', () => download('samples.csv', samplesAsCSV()));
  document.getElementById('row-heading').tabIndex = -1;
  document.getElementById('kept').textContent = (data.kept === data.samples ? 'The page has all ' + data.samples + ' samples.'
    : 'The page has ' + data.kept + ' of ' + data.samples + ' samples: those of rows with findings, and quantiles of the others.') +
    (data.left_out ? ' ' + data.left_out + ' inferred rows that are clean are left out.' : '');
  if (!data.series.length || !ms.length) {
    document.getElementById('overview').hidden = true;
    document.getElementById('curves').hidden = true;
  }
  setFilters();
  setHeatEvents();
  readState();
  draw();
  window.addEventListener('hashchange', () => { readState(); draw(); });
  let wait = 0;
  const again = () => { cancelAnimationFrame(wait); wait = requestAnimationFrame(() => draw()); };
  window.addEventListener('resize', again);
  dark.addEventListener('change', again);
  window.addEventListener('scroll', hideTip, {passive: true});
  window.addEventListener('beforeprint', () => { listed = Infinity; draw(); });
  window.addEventListener('afterprint', () => { listed = pageOf; draw(); });
}

start();
