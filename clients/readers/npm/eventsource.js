// eventsource, and a browser's own: it comes back by itself, and 204 ends it.
// Its failures are events named `error`, too; ours have data.
import { EventSource } from "eventsource";
import { print } from "./print.js";

const source = new EventSource(process.argv[2]);
for (const name of ["queued", "processing", "retrying", "completed", "error", "idle", "message"]) {
  source.addEventListener(name, ({ lastEventId, data }) => {
    if (data !== undefined) print({ id: lastEventId, event: name, data });
    else if (source.readyState === source.CLOSED) process.exitCode = 0; // the 204
  });
}
