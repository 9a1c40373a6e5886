'use strict';
// What is shown: it stands in the fragment of the address, so that a view can be sent.
const ms = column('m');
const range = (() => {
  let low = Infinity, high = 0;
  for (const m of ms) { if (m < low) low = m; if (m > high) high = m; }
  return high ? {from: Math.max(1, low), to: Math.max(high, low + 1)} : {from: 1, to: 2};
})();

const usual = {
  series: String(data.findings.length && !isDiff ? data.findings[0].series : 0), from: range.from, to: range.to,
  quantity: isDiff ? 'change' : column('loss').some(v => v > 0) ? 'loss' : 'mfu',
  scale: range.to / range.from > 64 ? 'log' : 'linear', axis: 'mfu', row: '', sort: isDiff ? 'change' : 'stake', order: isDiff ? 'up' : 'down',
  status: '', rule: '', cause: '', kernel: '', change: '', open: '',
};
const state = {...usual};

// readState takes the state from the address. What makes no sense there is as usual.
function readState() {
  Object.assign(state, usual);
  const said = new URLSearchParams(location.hash.slice(1));
  for (const [key, value] of said) if (Object.hasOwn(usual, key)) state[key] = value;
  state.from = Number(state.from); state.to = Number(state.to);
  if (!(state.from < state.to && state.to > range.from && state.from < range.to)) { state.from = range.from; state.to = range.to; }
  const series = chosen().filter(i => Number.isInteger(i) && i >= 0 && i < data.series.length);
  state.series = series.length ? series.join('.') : usual.series;
}

const chosen = () => String(state.series).split('.').map(Number);

// fragment is the address of the state: only what is not as usual.
function fragment() {
  const said = new URLSearchParams();
  for (const key in usual) if (String(state[key]) !== String(usual[key])) said.set(key, state[key]);
  return '#' + said;
}

// change sets parts of the state, keeps them in the address and draws what they touch.
function change(parts) {
  Object.assign(state, parts);
  history.replaceState(null, '', fragment());
  draw(Object.keys(parts));
}
