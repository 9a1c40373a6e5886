'use strict';
// The data of the page: one object, and columns of numbers that are decoded when they are first read.
const data = JSON.parse(document.getElementById('data').textContent);

const columns = new Map();

// column is a typed array by name; an empty one where the page has none.
function column(name) {
  let values = columns.get(name);
  if (values) return values;
  const element = document.getElementById('column-' + name);
  if (!element) {
    values = new Float32Array(0);
  } else {
    const kinds = {Uint8: Uint8Array, Int16: Int16Array, Uint16: Uint16Array, Uint32: Uint32Array, Float32: Float32Array};
    const bytes = fromBase64(element.textContent);
    values = new kinds[element.dataset.kind](bytes.buffer, 0, bytes.length / kinds[element.dataset.kind].BYTES_PER_ELEMENT);
    element.remove(); // the text is not needed twice
  }
  columns.set(name, values);
  return values;
}

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

// element makes an element; text is always text.
function element(name, text, properties) {
  const e = document.createElement(name);
  if (text !== undefined && text !== null) e.textContent = text;
  return Object.assign(e, properties);
}

// download gives the reader a file that is made here.
function download(name, pieces) {
  const link = element('a', '', {href: URL.createObjectURL(new Blob(pieces, {type: 'text/csv'})), download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// quoted is a field of CSV. What a spreadsheet would take for a formula is text there too.
const quoted = s => '"' + (/^[=+\-@]/.test(s) ? "'" : '') + s.replaceAll('"', '""') + '"';
const number = v => Number.isFinite(v) ? String(v) : '';
