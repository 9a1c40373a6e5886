'use strict';
// What a compressed page has instead of its content: it puts that in its place.
(() => {
  const text = document.getElementById('packed').textContent;
  const failed = e => { document.getElementById('unpacking').textContent = 'This page could not be unpacked (' + e.message + '). It needs a browser of 2023 or later.'; };
  try {
    const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    new Response(stream).text().then(page => {
      document.open();
      document.write(page);
      document.close();
    }).catch(failed);
  } catch (e) {
    failed(e);
  }
})();
