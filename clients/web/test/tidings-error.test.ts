// @vitest-environment happy-dom
import { beforeEach, expect, it, vi } from "vitest";
import { Texts } from "../src/index.js";
import { TidingsErrorElement } from "../src/tidings-error.js";

function shown(html: string) {
  document.body.innerHTML = html;
  const element = document.querySelector("tidings-error")!;
  const root = element.shadowRoot!;
  return { element, view: root.querySelector<HTMLElement>(".view")!, button: root.querySelector("button")! };
}

beforeEach(() => document.documentElement.setAttribute("lang", "en"));

it("shows the icon, the text for the workload, and the button, in the language around it", () => {
  const { element, view, button } = shown('<div lang="nb-NO"><tidings-error workload="guidance"></tidings-error></div>');
  expect(element).toBeInstanceOf(TidingsErrorElement);
  expect(view.querySelector("svg")?.getAttribute("aria-hidden")).toBe("true");
  expect(view.querySelector("p")?.textContent).toMatch(/^Vi kunne ikke generere veiledningen/);
  expect(button.textContent).toBe("Prøv igjen");
  expect([view.getAttribute("role"), view.lang, view.dir]).toEqual(["alert", "nb", "ltr"]);
});

it("is written from right to left in Arabic", () => {
  expect(shown('<tidings-error lang="ar"></tidings-error>').view.dir).toBe("rtl");
});

it("fires retry, unless the button waits or is not offered", () => {
  const { element, button } = shown("<tidings-error></tidings-error>");
  const onRetry = vi.fn();
  document.body.addEventListener("retry", onRetry, { once: true });
  button.click();
  expect(onRetry).toHaveBeenCalledTimes(1);
  element.setAttribute("disabled", "");
  expect(button.disabled).toBe(true);
  element.setAttribute("no-retry", "");
  expect(button.hidden).toBe(true);
});

it("takes other texts: an attribute, or those of the server", () => {
  const { element, view } = shown('<tidings-error text="Not now."></tidings-error>');
  expect(view.querySelector("p")?.textContent).toBe("Not now.");
  element.removeAttribute("text");
  element.texts = new Texts({ baseUrl: "https://api.test", language: "de" });
  expect(view.querySelector("p")?.textContent).toMatch(/Zusammenfassung/);
  expect(view.lang).toBe("de");
});

it("takes texts that were set before the page knew the element", () => {
  // A page may draw before the module has come; then this is an own property of a plain element.
  const element = document.createElement("tidings-error") as TidingsErrorElement;
  Object.defineProperty(element, "texts", {
    value: new Texts({ baseUrl: "https://api.test", language: "de" }), writable: true, enumerable: true, configurable: true,
  });
  document.body.append(element);
  expect(element.shadowRoot!.querySelector<HTMLElement>(".view")!.lang).toBe("de");
  expect(element.texts?.language).toBe("de");
});

it("never reads its text as markup", () => {
  const { view } = shown("<tidings-error></tidings-error>");
  document.querySelector("tidings-error")!.setAttribute("text", "<img src=x>");
  expect(view.querySelector("img")).toBeNull();
});
