const KEY = "tidings-demo-theme";

/** Makes the button switch between light and dark. Until it is used the system decides. */
export function startThemes(button: HTMLButtonElement): void {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => document.documentElement.dataset["theme"];
  const isDark = () => (chosen() ? chosen() === "dark" : system.matches);
  const show = () => button.setAttribute("aria-pressed", String(isDark()));
  const kept = localStorage.getItem(KEY);
  if (kept === "dark" || kept === "light") document.documentElement.dataset["theme"] = kept;
  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset["theme"] = theme;
    localStorage.setItem(KEY, theme);
    show();
  });
  system.addEventListener("change", show);
  show();
}
