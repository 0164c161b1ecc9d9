const LONG_HIDDEN = 15_000; // a heartbeat: before that a stream is very likely still good

/**
 * Calls `back` when the page is visible again after a while, comes out of the
 * back/forward cache, or the network returns. Does nothing where there is no page.
 * Returns what ends it.
 */
export function onReturn(back: () => void): () => void {
  if (typeof document === "undefined" || typeof window === "undefined") return () => {};
  let hiddenAt: number | null = null;
  const onVisibility = () => {
    if (document.visibilityState === "hidden") {
      hiddenAt = Date.now(); // a clock that goes on while the device sleeps
      return;
    }
    if (hiddenAt !== null && Date.now() - hiddenAt >= LONG_HIDDEN) back();
    hiddenAt = null;
  };
  const onPageShow = (event: Event) => {
    if ((event as PageTransitionEvent).persisted) back();
  };
  document.addEventListener("visibilitychange", onVisibility);
  window.addEventListener("pageshow", onPageShow);
  window.addEventListener("online", back);
  return () => {
    document.removeEventListener("visibilitychange", onVisibility);
    window.removeEventListener("pageshow", onPageShow);
    window.removeEventListener("online", back);
  };
}
