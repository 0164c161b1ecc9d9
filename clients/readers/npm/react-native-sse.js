// react-native-sse has no ear for 204 and asks again for ever: close it at the end.
// Its failures are events named `error`, too; ours have data.
import XHR from "xmlhttprequest-ssl";
import rnsse from "react-native-sse";
import { print } from "./print.js";

globalThis.XMLHttpRequest = XHR.XMLHttpRequest; // React Native has one

const EventSource = rnsse.default ?? rnsse;
const source = new EventSource(process.argv[2], { pollingInterval: 500 });
for (const name of ["queued", "processing", "retrying", "completed", "error", "idle", "message"]) {
  source.addEventListener(name, ({ lastEventId, data }) => {
    if (data === undefined) return;
    print({ id: lastEventId, event: name, data });
    if (name === "completed" || name === "error") source.close();
  });
}
