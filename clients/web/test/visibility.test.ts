// @vitest-environment happy-dom
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { onReturn } from "../src/visibility.js";

const back = vi.fn();
let stop: () => void;

beforeEach(() => {
  vi.useFakeTimers();
  back.mockClear();
  stop = onReturn(back);
});

afterEach(() => {
  stop();
  vi.useRealTimers();
});

function become(state: "hidden" | "visible"): void {
  vi.spyOn(document, "visibilityState", "get").mockReturnValue(state);
  document.dispatchEvent(new Event("visibilitychange"));
}

it("trusts the stream after a short look elsewhere, not after a long one", () => {
  become("hidden");
  vi.advanceTimersByTime(14_000);
  become("visible");
  expect(back).not.toHaveBeenCalled();
  become("hidden");
  vi.advanceTimersByTime(15_000);
  become("visible");
  expect(back).toHaveBeenCalledTimes(1);
});

it("hears the network and the back/forward cache, until stopped", () => {
  const restored = Object.assign(new Event("pageshow"), { persisted: true });
  window.dispatchEvent(new Event("online"));
  window.dispatchEvent(restored);
  window.dispatchEvent(new Event("pageshow"));
  expect(back).toHaveBeenCalledTimes(2);
  stop();
  window.dispatchEvent(new Event("online"));
  expect(back).toHaveBeenCalledTimes(2);
});
