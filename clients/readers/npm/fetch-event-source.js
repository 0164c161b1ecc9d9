// What @microsoft/fetch-event-source needs: an answer to 204, which it takes for a
// broken stream, and to an orderly end, which it takes for the last.
import fetchEventSource from "@microsoft/fetch-event-source";
import { print } from "./print.js";

globalThis.window = globalThis; // it is made for pages
globalThis.document = new EventTarget();

class Over extends Error {}
class ComeBack extends Error {}
let ended = false;

await fetchEventSource.fetchEventSource(process.argv[2], {
  fetch: globalThis.fetch,
  openWhenHidden: true,
  async onopen(response) {
    if (response.status === 204) throw new Over();
  },
  onmessage(message) {
    print(message);
    ended ||= message.event === "completed" || message.event === "error";
  },
  onclose() {
    if (!ended) throw new ComeBack();
  },
  onerror(error) {
    if (error instanceof Over) throw error; // anything else: again, with Last-Event-ID
  },
}).catch((error) => {
  if (!(error instanceof Over)) throw error;
});
