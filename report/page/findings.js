'use strict';
// The table of findings, ranked by time at stake unless the reader sorts it otherwise. A row opens a card.
const findingColumns = [
  ['status', 'status', f => f.status], ['change', 'change', f => changed.indexOf(f.change), f => f.change || ''],
  ['remedy', 'remedy', f => f.remedy], ['gain', 'gain', f => f.gain, f => f.gain_text],
  ['m', 'm', f => f.from, f => f.from === f.to ? String(f.from) : f.from + '–' + f.to], ['series', 'series', f => shortNames[f.series]],
  ['loss', 'loss', f => f.loss, f => f.loss_text], ['stake', 'stake us', f => f.stake, f => f.stake_text], ['rule', 'rule', f => f.rule], ['cause', 'cause', f => f.cause],
].filter(([key]) => isDiff || key !== 'change');
const numeric = ['m', 'loss', 'stake', 'gain'];
const filters = ['status', 'rule', 'cause', 'kernel', ...(isDiff ? ['change'] : [])];
const pageOf = 100;
let listed = pageOf;

function listFindings() {
  const [, , of] = findingColumns.find(c => c[0] === state.sort) || findingColumns.find(c => c[0] === 'stake');
  const sign = state.order === 'up' ? 1 : -1;
  return data.findings.map((f, i) => [f, i]).filter(([f]) => filters.every(k => state[k] === '' || f[k] === state[k]))
    .sort(([f, i], [g, k]) => { const a = of(f), b = of(g); return (a < b ? -sign : a > b ? sign : 0) || i - k; }).map(([f]) => f);
}

function setFilters() {
  const bar = document.getElementById('filters');
  for (const key of filters) {
    const select = element('select', '', {id: 'filter-' + key});
    select.append(element('option', 'all', {value: ''}), ...[...new Set(data.findings.map(f => f[key]))].filter(v => v).sort().map(v => element('option', v, {value: v})));
    select.addEventListener('change', () => { listed = pageOf; change({[key]: select.value}); });
    const label = element('label', key + ' ');
    label.append(select);
    bar.append(label);
  }
  const save = element('button', 'Download findings (JSON)', {type: 'button', id: 'download-findings'});
  save.addEventListener('click', () => download('findings.json', [JSON.stringify(listFindings(), null, 2)]));
  bar.append(save);
  const head = element('tr');
  for (const [key, name] of findingColumns) {
    const button = element('button', name, {type: 'button'});
    button.addEventListener('click', () => change(state.sort === key ? {order: state.order === 'down' ? 'up' : 'down'} : {sort: key, order: numeric.includes(key) && key !== 'm' ? 'down' : 'up'}));
    const cell = element('th', '', {scope: 'col', className: key + (numeric.includes(key) ? ' right' : '')});
    cell.dataset.key = key;
    cell.append(button);
    head.append(cell);
  }
  document.querySelector('#findings thead').append(head);
  document.getElementById('more').addEventListener('click', () => { listed += pageOf; drawFindings(); });
}

function drawFindings() {
  const all = listFindings(), open = state.open.split('.'), body = document.querySelector('#findings tbody');
  for (const key of filters) document.getElementById('filter-' + key).value = state[key];
  for (const cell of document.querySelectorAll('#findings th')) {
    if (cell.dataset.key === state.sort) cell.setAttribute('aria-sort', state.order === 'up' ? 'ascending' : 'descending'); else cell.removeAttribute('aria-sort');
  }
  document.getElementById('found-count').textContent = data.findings.length === 0 ? 'There are no findings.' : all.length + ' of ' + data.findings.length + ' findings' + (state.sort === 'stake' ? ', by time at stake' : state.sort === 'change' ? ', those that changed first' : '') + '.';
  document.getElementById('more').hidden = all.length <= listed;
  document.getElementById('findings').hidden = all.length === 0;
  const rows = [];
  for (const f of all.slice(0, listed)) {
    const row = element('tr'), shown = open.includes(f.at);
    findingColumns.forEach(([key, , of, text], i) => {
      const cell = element(i === 0 ? 'th' : 'td', '', {className: key + (numeric.includes(key) ? ' right' : '')}), t = text ? text(f) : String(of(f));
      if (i === 0) {
        cell.scope = 'row';
        const button = element('button', (shown ? '▾ ' : '▸ ') + t, {type: 'button', className: 'open ' + f.status});
        button.setAttribute('aria-expanded', String(shown));
        button.setAttribute('aria-label', f.status + ', ' + f.rule + ', m ' + f.from + ' to ' + f.to + ': details');
        button.addEventListener('click', () => toggle(f));
        cell.append(button);
      } else cell.textContent = t;
      row.append(cell);
    });
    rows.push(row);
    if (shown) rows.push(card(f));
  }
  const active = document.activeElement && document.activeElement.closest('#findings tbody tr') ? document.activeElement.getAttribute('aria-label') : null;
  body.replaceChildren(...rows);
  if (active) for (const b of body.querySelectorAll('button.open')) if (b.getAttribute('aria-label') === active) b.focus();
  for (const f of all.slice(0, listed)) if (open.includes(f.at)) drawCard(f);
}

function toggle(f) {
  const open = state.open.split('.').filter(x => x);
  change(open.includes(f.at) ? {open: open.filter(x => x !== f.at).join('.')} : {open: [...open, f.at].join('.')});
}

// word is what is said of a word of a kind: as `gemmaudit explain` says it.
const word = (kind, name) => data.words.find(w => w.kind === kind && w.name === name);

const bare = text => text.replaceAll('`', ''); // without the marks of code

// explained is a word with its picture, folded.
function explained(w) {
  const fold = element('details');
  const picture = element('pre', w.picture.replace(/\n+$/, ''), {tabIndex: 0});
  fold.append(element('summary', w.name + ' (' + w.kind + '): ' + w.meaning), picture, element('p', 'How it is decided: ' + bare(w.decided)), element('p', 'What to do: ' + bare(w.do)));
  return fold;
}

// card is a finding in full: numbers, cause, remedy with proof, the command that shows it again, a plot.
function card(f) {
  const row = element('tr', '', {className: 'card'}), cell = element('td', '', {colSpan: findingColumns.length}), box = element('div');
  box.append(element('h3', f.rule + ', ' + sizeName(f.series) + ' ' + (f.from === f.to ? f.from : f.from + '–' + f.to) + ' of ' + data.series[f.series].name));
  box.append(element('p', f.claim));
  const known = f.cause && f.cause !== 'unknown', cause = word('cause', f.cause), rule = word('rule', f.rule), status = word('status', f.status);
  if (known) box.append(element('p', f.cause + (cause ? ': ' + cause.meaning + '.' : ''), {className: 'cause'}));
  else box.append(element('p', 'No cause is known' + (f.excluded ? ': ' + f.excluded : '.'), {className: 'cause'}));
  if (f.why) box.append(element('p', f.why));
  const first = known ? cause : rule;
  if (first) box.append(element('p', 'What to do: ' + bare(first.do)));
  const list = element('dl');
  const fact = (name, text) => { if (text) { const d = element('div'); d.append(element('dt', name), element('dd', text)); list.append(d); } };
  fact('change', f.change); fact('worst m', String(f.worst)); fact('loss', f.loss_text); fact('time at stake', f.stake_text && f.stake_text + ' us'); fact('p adjusted', f.p_text);
  fact('held against', f.against || (f.reference ? sizeName(f.series) + ' ' + f.reference : '')); fact('rows', String(f.rows));
  for (const [name, text] of f.facts || []) fact(name, text);
  fact('remedy', f.remedy); fact('gain', f.gain_text); fact('waived', f.waiver);
  box.append(list);
  if (f.proof) box.append(element('p', 'Remedy ' + f.remedy + ': ' + f.proof + '.'));
  for (const w of [rule, known ? cause : null, status]) if (w) box.append(explained(w));
  const canvas = element('canvas');
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', 'MFU of rows around m ' + f.worst);
  canvas.dataset.id = f.at;
  const figure = element('figure', '', {className: 'small'});
  figure.append(canvas, element('figcaption', 'MFU around the interval, which is shaded; dashed is what the rule expects.'));
  box.append(figure);
  if (f.command) {
    box.append(element('p', 'To see it again:'));
    box.append(command(f.command));
  }
  const bar = element('p'), show = element('button', 'Show in the plot', {type: 'button'}), worst = element('button', 'Samples of m ' + f.worst, {type: 'button'});
  show.addEventListener('click', () => {
    const wide = Math.max(8, f.to - f.from);
    change({series: String(f.series), from: Math.max(range.from, f.from - wide), to: Math.min(range.to, f.to + wide)});
    document.getElementById('curves').scrollIntoView();
  });
  worst.addEventListener('click', () => {
    const at = nearest(f.series, f.worst);
    if (at >= 0) { change({series: String(f.series)}); showRow(at, true); }
  });
  bar.append(show, ' ', worst);
  box.append(bar);
  cell.append(box);
  row.append(cell);
  return row;
}

// drawCard draws the plot of a card: the rows around the interval.
function drawCard(f) {
  const canvas = [...document.querySelectorAll('#findings canvas')].find(e => e.dataset.id === f.at), b = block(f.series);
  if (!canvas || !b) return;
  const c = colours(), width = Math.min(520, canvas.parentElement.clientWidth), height = 140, g = sized(canvas, width, height);
  const inside = nearest(f.series, f.from), end = nearest(f.series, f.to), around = Math.max(8, end - inside + 1);
  const left = 56, first = Math.max(b.at, inside - around), last = Math.min(b.at + b.rows - 1, end + around);
  if (last < first) return;
  const x = i => left + (last > first ? (ms[i] - ms[first]) / (ms[last] - ms[first]) : 0.5) * (width - left - 12);
  let high = 0, low = Infinity;
  for (let i = first; i <= last; i++) for (const v of [column('mfu')[i], column('expected')[i]]) if (v > 0) { high = Math.max(high, v); low = Math.min(low, v); }
  if (!high) return;
  const room = 0.1 * (high - low || high), bottom = Math.max(0, low - room), top = high + room;
  const y = v => height - 22 - (v - bottom) / (top - bottom) * (height - 30);
  g.font = '12px system-ui, sans-serif';
  g.fillStyle = statusColour(c, f.status);
  g.globalAlpha = 0.25;
  g.fillRect(x(inside) - 3, 6, Math.max(6, x(end) - x(inside) + 6), height - 28);
  g.globalAlpha = 1;
  const path = (name, colour, dash) => {
    g.strokeStyle = colour; g.setLineDash(dash); g.lineWidth = 1.5; g.beginPath();
    let pen = false;
    for (let i = first; i <= last; i++) {
      const v = column(name)[i];
      if (!(v > 0)) continue;
      if (pen) g.lineTo(x(i), y(v)); else g.moveTo(x(i), y(v));
      pen = true;
    }
    g.stroke(); g.setLineDash([]);
  };
  path('expected', c.text, [4, 3]);
  path('mfu', c.series[0], []);
  g.fillStyle = c.text;
  g.textAlign = 'left';
  g.fillText(sizeName(f.series) + ' ' + ms[first], left, height - 6);
  g.textAlign = 'right';
  g.fillText(sizeName(f.series) + ' ' + ms[last], width - 10, height - 6);
  g.fillText((100 * high).toFixed(1) + ' %', left - 8, y(high) + 4);
  g.fillText((100 * low).toFixed(1) + ' %', left - 8, y(low) + 2);
}
