/** How many seconds a wait is said to last. It ends at a whole second of the server's clock, which is no part of the plan. */
export function plannedSeconds(ms: number): number {
  return Math.max(Math.round(ms / 1000), 1);
}

/** What a countdown shows, as the server counts in its messages: not above the plan, and no 0 while it waits. */
export function secondsLeft(ms: number, planned: number): number {
  return Math.max(Math.min(Math.ceil(ms / 1000), planned), 1);
}
