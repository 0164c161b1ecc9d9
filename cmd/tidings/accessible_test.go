package main

// accessible finds what keeps people out of a page: fields without a label,
// headings that skip a level, doubled ids, tables without headers, text that is
// too pale (WCAG 2.2 AA), regions that a keyboard cannot scroll, a page wider
// than its window. It returns a list of complaints.
const accessible = `(() => {
  const bad = [], all = s => [...document.querySelectorAll(s)];
  const show = e => e.outerHTML.slice(0, 120);
  if (!document.documentElement.lang) bad.push('no language');
  if (!document.title) bad.push('no title');
  if (all('script, [onclick], [style]').length) bad.push('scripts or inline styles');
  if (all('main').length !== 1 || all('h1').length !== 1 || !all('nav[aria-label], nav[aria-labelledby]').length) bad.push('landmarks');
  let level = 0;
  for (const h of all('h1,h2,h3,h4')) { const n = +h.tagName[1]; if (n > level + 1) bad.push('heading skips: ' + show(h)); level = n; if (!h.innerText.trim()) bad.push('empty heading'); }
  const ids = {};
  for (const e of all('[id]')) { if (ids[e.id]) bad.push('id twice: ' + e.id); ids[e.id] = true; }
  for (const a of ['aria-labelledby', 'aria-describedby']) for (const e of all('[' + a + ']'))
    for (const id of e.getAttribute(a).split(/\s+/)) if (!document.getElementById(id)) bad.push(a + ' leads nowhere: ' + show(e));
  for (const e of all('input:not([type=hidden]),select,textarea')) if (!e.labels || !e.labels.length || !e.labels[0].innerText.trim()) bad.push('no label: ' + show(e));
  for (const e of all('button,a[href],summary')) if (!(e.innerText.trim() || e.getAttribute('aria-label'))) bad.push('no name: ' + show(e));
  for (const e of all('form,section')) if (!e.getAttribute('aria-label') && !e.getAttribute('aria-labelledby')) bad.push('no name: ' + show(e));
  for (const e of all('meter')) if (!e.getAttribute('aria-labelledby') && !(e.labels || []).length) bad.push('no label: ' + show(e));
  for (const t of all('table')) { if (!t.caption) bad.push('no caption: ' + show(t)); if (!t.querySelector('th[scope=col]')) bad.push('no headers: ' + show(t)); }
  for (const th of all('th')) if (!th.scope) bad.push('no scope: ' + show(th));
  for (const e of all('*')) if (e.scrollWidth > e.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(e).overflowX) && e.tabIndex < 0) bad.push('cannot be scrolled by keyboard: ' + show(e));
  for (const a of all('a[href^="#"]')) if (!document.querySelector(a.getAttribute('href'))) bad.push('leads nowhere: ' + show(a));
  if (document.documentElement.scrollWidth > innerWidth) bad.push('wider than the window: ' + document.documentElement.scrollWidth + ' > ' + innerWidth);
  const rgb = c => { const m = c.match(/[\d.]+/g).map(Number); return {r: m[0], g: m[1], b: m[2], a: m.length > 3 ? m[3] : 1}; };
  const lum = c => { const f = v => { v /= 255; return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }; return .2126 * f(c.r) + .7152 * f(c.g) + .0722 * f(c.b); };
  const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.a === 1) return c; } return {r: 255, g: 255, b: 255}; };
  const contrast = (a, b) => { const x = lum(a), y = lum(b); return (Math.max(x, y) + .05) / (Math.min(x, y) + .05); };
  const seen = new Set(), walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n; n = walk.nextNode();) {
    const e = n.parentElement;
    if (!n.data.trim() || seen.has(e) || e.tagName === 'OPTION') continue;
    seen.add(e);
    const s = getComputedStyle(e), size = parseFloat(s.fontSize), large = size >= 24 || size >= 18.66 && +s.fontWeight >= 700;
    const c = contrast(rgb(s.color), behind(e));
    if (c < (large ? 3 : 4.5)) bad.push('contrast ' + c.toFixed(2) + ': ' + show(e));
  }
  for (const e of all('input:not([type=hidden]),select')) {
    const c = contrast(rgb(getComputedStyle(e).borderTopColor), behind(e.parentElement));
    if (c < 3) bad.push('a field\'s edge has contrast ' + c.toFixed(2));
  }
  return bad;
})()`

// focused describes what has the focus, and whether that can be seen.
const focused = `(() => { const e = document.activeElement, s = getComputedStyle(e);
  return {what: e.tagName.toLowerCase() + (e.id ? '#' + e.id : ''), text: (e.innerText || e.value || '').trim().slice(0, 40),
    seen: e === document.body || s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2, at: [...document.querySelectorAll('*')].indexOf(e)}; })()`
