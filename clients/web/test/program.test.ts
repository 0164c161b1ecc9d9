import { afterAll, describe, expect, it } from "vitest";
import * as client from "../src/index.js";
import { journeys } from "./journeys.js";
import { addressOf, startProgram, startWay } from "./program.js";

// In Node, against the real program.

const program = await startProgram();
afterAll(() => program.stop());

describe.concurrent("program", () => {
  it.each(Object.entries(journeys))("%s", { timeout: 60_000 }, async (name, journey) => {
    const way = await startWay(addressOf(program.url));
    try {
      const found = await journey.go({ client, baseUrl: way.url, session: name.replace(/\W+/g, "-"), kill: async () => way.kill() });
      expect(found).toEqual(journey.finds);
    } finally {
      await way.stop();
    }
  });
});
