/** What the model is told to do, and what there is to see. */
export interface Scenario {
  readonly id: string;
  /** The steps of the local model, one a call; see docs/protocol.md. */
  readonly simulate: readonly string[];
  /** Whether the connection is cut as soon as the job runs. */
  readonly cut?: boolean;
  /** What to look for, shown while it runs. */
  readonly hint: string;
}

/** The scenarios, in the order of their buttons. */
export const scenarios: readonly Scenario[] = [
  {
    id: "normal",
    simulate: ["ok:3s"],
    hint: "One attempt, one call, one summary. Nobody polls: each change arrives on the open stream.",
  },
  {
    id: "overloaded",
    simulate: ["529:700ms", "529:700ms", "529:700ms", "ok:2500ms"],
    hint: "Three calls fail within one attempt, with short random pauses. Then the queue takes over and waits 30 s. " +
      "Wait with the user, or press “Run now”.",
  },
  {
    id: "rate-limit",
    simulate: ["retry_after:10", "ok:2500ms"],
    hint: "The provider says when to come back: Retry-After, 10 s. That wait is kept to the second, and nobody can shorten it.",
  },
  {
    id: "timeout",
    simulate: ["timeout:3s", "ok:2500ms"],
    hint: "The call gets no answer. (In earnest that takes up to 30 s, here 3.) A call that used up its time is not made again " +
      "in the same attempt: the queue waits 30 s.",
  },
  {
    id: "fault",
    simulate: ["500:700ms", "ok:2500ms"],
    hint: "The provider broke down on this request. To send it again at once would rarely help, so the user decides: “Try again” is one POST.",
  },
  {
    id: "bad-key",
    simulate: ["401:700ms"],
    hint: "A refused key is not worth repeating, so nothing is, and no button promises that it would help: the text says that it is ours to fix. " +
      "Another scenario starts a new job.",
  },
  {
    id: "cut",
    simulate: ["529:700ms", "ok:4s"],
    cut: true,
    hint: "The server drops the connection in the middle. The job goes on. The client comes back with the id of the last event " +
      "it has, and gets all it missed.",
  },
];

/** The scenario of an id. */
export function scenarioOf(id: string): Scenario {
  return scenarios.find((s) => s.id === id) ?? scenarios[0]!;
}
