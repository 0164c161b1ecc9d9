type Child = Node | string | null;

/** Makes an element. Attributes that are false or null are left out, true ones are empty. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Readonly<Record<string, string | number | boolean | null>> = {}, ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((c) => c !== null));
  return made;
}

/** The element of the page with this id. A page without it is broken. */
export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found as T;
}

/** Changes a text only if it differs, so that screen readers are told only of changes. */
export function setText(of: Node, text: string): void {
  if (of.textContent !== text) of.textContent = text;
}
