'use strict';
// Copying text, with what the button says of it for two seconds.
function copyText(text, button, done, failed) {
  const label = button.textContent;
  const told = said => { say(said); button.textContent = said; setTimeout(() => { button.textContent = label; }, 2000); };
  // A page from a file has no clipboard in some browsers; there the old way works.
  const old = () => {
    const area = element('textarea', '', {value: text, className: 'away', readOnly: true});
    document.body.append(area);
    area.select();
    let copied = false;
    try { copied = document.execCommand('copy'); } catch { copied = false; }
    area.remove();
    button.focus();
    told(copied ? done : failed);
  };
  if (navigator.clipboard) navigator.clipboard.writeText(text).then(() => told(done), old); else old();
}

// command is a command with its button.
function command(text) {
  const box = element('div', '', {className: 'command'}), pre = element('pre', '', {tabIndex: 0});
  pre.append(element('code', text));
  box.append(pre, element('button', 'Copy', {type: 'button', className: 'copy'}));
  return box;
}

// One listener serves the buttons of problems and of cards that are made later.
for (const button of document.querySelectorAll('.copy')) button.hidden = false;
document.addEventListener('click', e => {
  const button = e.target.closest('.copy');
  if (button) copyText(button.parentElement.querySelector('code').textContent, button, 'Copied', 'Select it to copy');
});
