'use strict';
// What drawings share: colours of the scheme, sizes, the scale of M, the tip.
const dark = matchMedia('(prefers-color-scheme: dark)');
const printing = matchMedia('print');

function colours() {
  const css = getComputedStyle(document.documentElement);
  const of = name => css.getPropertyValue('--' + name).trim();
  return {text: of('text'), faint: of('faint'), line: of('line'), cell: of('cell'), mark: of('mark'), back: of('back'),
    series: [1, 2, 3, 4, 5, 6].map(i => of('series' + i)), confirmed: of('confirmed'), unconfirmed: of('unconfirmed'), waived: of('waived'), good: of('good')};
}

const statusColour = (c, status) => c[status] || c.unconfirmed;

// ramp are colours from nothing to most; loss goes up to mostLoss.
const ramps = {
  light: {up: [[236, 239, 243], [250, 196, 150], [222, 110, 30], [128, 35, 0]], down: [[236, 239, 243], [150, 205, 235], [30, 120, 180], [0, 55, 105]]},
  dark: {up: [[44, 49, 56], [120, 66, 30], [222, 120, 44], [255, 206, 160]], down: [[44, 49, 56], [24, 84, 124], [60, 150, 210], [190, 228, 255]]},
};
function shade(ramp, t) {
  const x = Math.max(0, Math.min(1, t)) * (ramp.length - 1), i = Math.min(ramp.length - 2, Math.floor(x));
  return ramp[i].map((v, k) => Math.round(v + (x - i) * (ramp[i + 1][k] - v)));
}
const ramp = () => ramps[dark.matches && !printing.matches ? 'dark' : 'light'];

// sized makes a canvas as sharp as the screen and gives its context in CSS pixels.
function sized(canvas, width, height) {
  const dense = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * dense);
  canvas.height = Math.round(height * dense);
  canvas.style.width = width + 'px';
  canvas.style.height = height + 'px';
  const g = canvas.getContext('2d', {willReadFrequently: true});
  g.setTransform(dense, 0, 0, dense, 0, 0);
  return g;
}

// axisOf maps M to a line of pixels and back.
function axisOf(left, width) {
  const f = state.scale === 'log' ? Math.log : v => v, back = state.scale === 'log' ? Math.exp : v => v;
  const from = f(Math.max(state.from, 0.5)), to = f(state.to);
  return {at: m => left + (f(Math.max(m, 0.5)) - from) / (to - from) * width, m: x => back(from + (x - left) / width * (to - from))};
}

// ticks are round Ms of the view, at most about n.
function ticks(n) {
  const out = [];
  if (state.scale === 'log' && state.to / state.from > 4) {
    const every = Math.max(1, Math.ceil(Math.log2(state.to / state.from) / n));
    for (let e = Math.ceil(Math.log2(state.from)); 2 ** e <= state.to; e += every) out.push(2 ** e);
    return out;
  }
  const raw = (state.to - state.from) / n, unit = 2 ** Math.ceil(Math.log2(Math.max(raw, 1)));
  for (let m = Math.ceil(state.from / unit) * unit; m <= state.to; m += unit) out.push(m);
  return out;
}

const tip = document.getElementById('tip');

// showTip puts lines of text beside a point of the window, within it.
function showTip(lines, x, y) {
  tip.replaceChildren(...lines.map(t => element('div', t)));
  tip.hidden = false;
  const wide = document.documentElement.clientWidth;
  tip.style.left = Math.max(4, Math.min(x + 14, wide - tip.offsetWidth - 4)) + 'px';
  tip.style.top = (y + tip.offsetHeight + 18 > window.innerHeight ? Math.max(0, y - tip.offsetHeight - 10) : y + 14) + 'px';
}
const hideTip = () => { tip.hidden = true; };

const say = text => { document.getElementById('said').textContent = text; };

// trimmed cuts a text to a width.
function trimmed(g, text, width) {
  if (g.measureText(text).width <= width) return text;
  while (text.length > 1 && g.measureText(text + '…').width > width) text = text.slice(0, -1);
  return text + '…';
}
