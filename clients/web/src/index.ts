/**
 * Follow the status of AI jobs on a Tidings server.
 *
 *     const status = subscribeSummaryStatus({ baseUrl, sessionId });
 *     await status.submit({ input: { text } });
 *     for await (const s of status) render(s);
 *
 * @module
 */
export { subscribeSummaryStatus, initialStatus, StatusSubscription } from "./subscription.js";
export type { FollowOptions, SubscribeOptions } from "./subscription.js";
export type { ConnectionHooks } from "./connection.js";
export type { SummaryStatus } from "./view.js";
export { watchAll, StatusList } from "./list.js";
export type { Statuses, WatchAllOptions } from "./list.js";
export { submit } from "./documents.js";
export type { SubmitOptions } from "./documents.js";
export type { Document, Job, Submission, Turn } from "./documents.js";
export { fetchStatuses } from "./ledger.js";
export type { Attempt, Call, Ledger } from "./ledger.js";
export type { JsonObject, StatusEvent } from "./event.js";
export { TidingsError } from "./http.js";
export type { GetToken, HttpOptions } from "./http.js";
export type { Connection, Outcome, Phase, State } from "./reducer.js";
export { Texts } from "./texts.js";
