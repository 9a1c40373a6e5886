'use strict';
// What the page of a run says of its rows.
data.findings.forEach((f, i) => { f.at = String(i); });

const verdicts = ['unjudged', 'clean', 'marginal', 'undecided', 'anomalous', 'failed'];
const changes = ['', 'same', 'undecided', 'faster', 'slower', 'marginal', 'suspected slower', 'suspected faster'];
const verdictOf = row => verdicts[column('verdict')[row] & 7];
const isInferred = row => (column('verdict')[row] & 8) !== 0;
const isDiff = data.runs.length > 1;

// changed are the changes in the order in which they matter;
// barred are the rules that hold a whole curve against something: their findings are thin bars, as they often span everything.
const changed = ['slower', 'new', 'suspected slower', 'faster', 'fixed', 'suspected faster', 'marginal', 'undecided', 'same'];
const barred = ['alternative', 'parity', 'routing', 'roofline'];

// block is the rows of a series in a run; the newest run's where none is named.
function block(series, run) {
  const blocks = data.series[series].blocks;
  return run === undefined ? blocks[blocks.length - 1] : blocks.find(b => b.run === run);
}

// nearest is the place of the row whose M is nearest to m, -1 where the series has none.
function nearest(series, m, run) {
  const b = block(series, run);
  if (!b || b.rows === 0) return -1;
  const ms = column('m');
  let low = b.at, high = b.at + b.rows - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ms[middle] < m) low = middle + 1; else high = middle;
  }
  return low > b.at && m - ms[low - 1] <= ms[low] - m ? low - 1 : low;
}

// seriesOf is the series that a row belongs to.
function seriesOf(row) {
  return data.series.findIndex(s => s.blocks.some(b => b.at <= row && row < b.at + b.rows));
}

let sampleStarts, quantileStarts;

// starts are where the samples of each row begin, and its quantiles where it has none.
function starts() {
  if (sampleStarts) return;
  const kept = column('kept'), counts = column('samples');
  sampleStarts = new Uint32Array(kept.length + 1);
  quantileStarts = new Int32Array(kept.length).fill(-1);
  const all = column('quantiles').length;
  for (let i = 0, q = 0; i < kept.length; i++) {
    sampleStarts[i + 1] = sampleStarts[i] + kept[i];
    if (kept[i] === 0 && q < all && counts[i] > 0) { quantileStarts[i] = q; q += 5; }
  }
}

// samplesOf are the samples of a row: times in microseconds, when they were taken, in which state.
function samplesOf(row) {
  starts();
  const from = sampleStarts[row], to = sampleStarts[row + 1];
  const cut = name => column(name).subarray(from, to);
  return {us: cut('sampleUS'), time: cut('sampleTime'), clock: cut('sampleClock'), power: cut('samplePower'), state: cut('sampleState')};
}

// quantilesOf are five quantiles of a row whose samples the page has not, else null.
function quantilesOf(row) {
  starts();
  const at = quantileStarts[row];
  return at < 0 ? null : column('quantiles').subarray(at, at + 5);
}

const significant = (v, n) => Number(v.toPrecision(n)).toLocaleString('en', {maximumSignificantDigits: n, useGrouping: false});
const microsText = v => Number.isFinite(v) ? significant(v, 4) + ' us' : 'unknown';
const shareText = v => Number.isFinite(v) ? (100 * v).toFixed(1) + ' %' : 'unknown';

// describe says in short lines what is known of a row.
// sizeName is the letter of what a series' sizes are: m, or the dimension that it runs along.
function sizeName(series) { return data.series[series].along || 'm'; }

function describe(row) {
  const series = data.series[seriesOf(row)];
  const us = column('us')[row], lo = column('lo')[row], hi = column('hi')[row], seen = column('seen')[row];
  const lines = [series.name, sizeName(seriesOf(row)) + ' ' + column('m')[row] + (isDiff ? ' of ' + data.runs[seriesBlock(row).run] : '')];
  lines.push('time ' + microsText(us) + (hi > lo ? ' [' + significant(lo, 4) + ' to ' + significant(hi, 4) + ']' : '') + (series.clock_mhz ? ' at ' + series.clock_mhz + ' MHz' : ''));
  if (Math.abs(seen - us) > 1e-6 * us) lines.push('observed ' + microsText(seen));
  if (Number.isFinite(column('mfu')[row])) lines.push('MFU ' + shareText(column('mfu')[row]));
  if (column('loss')[row] > 0) lines.push('loss ' + shareText(column('loss')[row]) + ' against ' + sizeName(seriesOf(row)) + ' ' + column('reference')[row]);
  const ratio = column('ratio')[row];
  if (ratio > 0) lines.push('B ÷ A ' + significant(ratio, 4) + ' [' + significant(column('ratioLo')[row], 4) + ' to ' + significant(column('ratioHi')[row], 4) + '], ' + changes[column('change')[row]]);
  lines.push((column('clock')[row] ? 'clock ' + column('clock')[row] + ' MHz, ' : '') + (isInferred(row) ? 'inferred' : column('samples')[row] + ' samples') + ', ' + verdictOf(row));
  const label = data.labels[column('label')[row]];
  if (label) lines.push(label);
  return lines;
}

function seriesBlock(row) {
  return data.series[seriesOf(row)].blocks.find(b => b.at <= row && row < b.at + b.rows);
}

// shortNames are the names of the series without the words that all share.
const shortNames = (() => {
  const words = data.series.map(s => s.name.split(/[ /]/));
  if (words.length < 2) return data.series.map(s => s.name);
  const shared = words[0].filter(w => words.every(x => x.includes(w)));
  const short = words.map(x => x.filter(w => !shared.includes(w)).join(' '));
  return new Set(short).size === short.length ? short : data.series.map(s => s.name);
})();

function rowsAsCSV() {
  const out = ['run,series,m,us,lo_us,hi_us,observed_us,mfu,expected_mfu,loss,clock_mhz,samples,verdict,inferred' + (isDiff ? ',ratio,change' : '') + ',label\n'];
  data.series.forEach(s => s.blocks.forEach(b => {
    for (let i = b.at; i < b.at + b.rows; i++) {
      out.push([quoted(data.runs[b.run]), quoted(s.name), column('m')[i], ...['us', 'lo', 'hi', 'seen', 'mfu', 'expected', 'loss'].map(c => number(column(c)[i])),
        column('clock')[i], column('samples')[i], verdictOf(i), isInferred(i), ...(isDiff ? [number(column('ratio')[i]), changes[column('change')[i]] || ''] : []), quoted(data.labels[column('label')[i]])].join(',') + '\n');
    }
  }));
  return out;
}

function samplesAsCSV() {
  const out = ['run,series,m,seconds,us,clock_mhz,power_w,state\n'];
  data.series.forEach(s => s.blocks.forEach(b => {
    for (let i = b.at; i < b.at + b.rows; i++) {
      const x = samplesOf(i), head = quoted(data.runs[b.run]) + ',' + quoted(s.name) + ',' + column('m')[i] + ',';
      for (let k = 0; k < x.us.length; k++) {
        out.push(head + [x.time[k], number(x.us[k]), x.clock[k] || '', x.power[k] ? x.power[k] / 10 : '', quoted(data.conditions[x.state[k]])].join(',') + '\n');
      }
    }
  }));
  return out;
}
