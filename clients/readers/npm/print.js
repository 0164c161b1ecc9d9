/** Tells the test of a message. */
export function print({ id, event, data }) {
  console.log(JSON.stringify({ id: id ?? "", event: event ?? "", data: data ?? "" }));
}
