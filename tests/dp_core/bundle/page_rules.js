// What the tests ask of a page in a browser: contrast of every text, rules of accessibility, focus.
const texts = () => {
  const parse = c => { const m = c.match(/[\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
  const light = c => { const f = v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
    return .2126 * f(c[0]) + .7152 * f(c[1]) + .0722 * f(c[2]); };
  const found = {};
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; node = walk.nextNode();) {
    if (!node.textContent.trim()) continue;
    const element = node.parentElement, style = getComputedStyle(element);
    if (['STYLE', 'SCRIPT'].includes(element.tagName)) continue;
    let at = element, ground = [0, 0, 0, 0];
    while (at && ground[3] < 1) { ground = parse(getComputedStyle(at).backgroundColor); at = at.parentElement; }
    const a = light(parse(style.color)), b = light(ground);
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    const key = style.color + ' on ' + ground.slice(0, 3) + ' in ' + element.tagName + '.' + element.className;
    found[key] = ratio;
  }
  return found;
};

const rules = () => {
  const wrong = [], all = s => [...document.querySelectorAll(s)];
  const named = e => e.getAttribute('aria-label') || document.getElementById(e.getAttribute('aria-labelledby'));
  const levels = all('h1,h2,h3,h4').map(h => +h.tagName[1]);
  levels.forEach((l, i) => { if (l > (levels[i - 1] || 0) + 1) wrong.push('heading ' + i); });
  if (levels.filter(l => l === 1).length !== 1) wrong.push('one h1');
  for (const s of ['main', 'header', 'nav', 'footer']) if (all(s).length !== 1) wrong.push('landmark ' + s);
  if (!document.documentElement.lang || !document.title) wrong.push('lang or title');
  for (const e of all('section, nav, [role=region]')) if (!named(e)) wrong.push('unnamed ' + e.outerHTML.slice(0, 60));
  for (const e of all('svg')) if (!e.closest('[aria-hidden=true]') && !(e.getAttribute('role') === 'img' && e.getAttribute('aria-label'))) wrong.push('picture without words');
  for (const e of all('table')) { if (!e.caption) wrong.push('table without caption'); }
  for (const e of all('th')) if (!['row', 'col'].includes(e.scope)) wrong.push('th without scope');
  for (const e of all('th')) if (!e.textContent.trim()) wrong.push('empty th');
  const ids = all('[id]').map(e => e.id);
  if (new Set(ids).size !== ids.length) wrong.push('id twice');
  for (const e of all('a[href]')) if (!document.getElementById(decodeURIComponent(e.hash.slice(1)))) wrong.push('dead link ' + e.href);
  for (const e of all('.scroll, pre')) if (e.tabIndex !== 0) wrong.push('no keyboard: ' + e.outerHTML.slice(0, 60));
  return wrong;
};

const focus = () => {
  const wrong = [];
  for (const e of document.querySelectorAll('a[href], summary, [tabindex]')) {
    e.focus({focusVisible: true});
    const style = getComputedStyle(e);
    if (document.activeElement === e && (style.outlineStyle === 'none' || parseFloat(style.outlineWidth) < 2)) wrong.push(e.outerHTML.slice(0, 60));
  }
  return wrong;
};
