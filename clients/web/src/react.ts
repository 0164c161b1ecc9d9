import { useEffect, useMemo, useState, useSyncExternalStore, type DetailedHTMLProps, type HTMLAttributes } from "react";
import { initialStatus, subscribeSummaryStatus, type StatusSubscription, type SubscribeOptions, type SummaryStatus } from "./subscription.js";
import type { Texts } from "./texts.js";
import type { TidingsErrorElement } from "./tidings-error.js";

/**
 * The status of a subscription that somebody else owns: for a view that may go while
 * the stream stays.
 */
export function useStatus(subscription: StatusSubscription): SummaryStatus {
  return useSyncExternalStore(subscription.subscribe, subscription.getSnapshot, subscription.getSnapshot);
}

/** What `useSummaryStatus` returns. */
export interface UseSummaryStatus {
  readonly status: SummaryStatus;
  /** For `retry`, `dismiss`, `submit` and the rest; null during the first render, also that after a change, and on a server. */
  readonly subscription: StatusSubscription | null;
}

/**
 * Follows a session's status for as long as the component is there. A change of
 * `baseUrl`, `sessionId`, `workload` or `language` starts over; of the other options
 * those of the first render after that are used.
 */
export function useSummaryStatus(options: SubscribeOptions): UseSummaryStatus {
  const { baseUrl, sessionId, workload, language } = options;
  const address = JSON.stringify([baseUrl, sessionId, workload, language]);
  const [opened, setOpened] = useState<{ address: string; subscription: StatusSubscription } | null>(null);
  const initial = useMemo(() => initialStatus(sessionId, workload), [sessionId, workload]);
  useEffect(() => {
    const subscription = subscribeSummaryStatus(options);
    setOpened({ address, subscription });
    return () => {
      subscription.close();
      setOpened(null);
    };
    // A new object with the same address must not open a new stream.
  }, [address]);
  // The first render after a change comes before the effect: what is known of another session is not this one's.
  const subscription = opened?.address === address ? opened.subscription : null;
  const status = useSyncExternalStore(
    subscription?.subscribe ?? nothingToHear,
    subscription?.getSnapshot ?? (() => initial),
    () => initial,
  );
  return { status, subscription };
}

function nothingToHear(): () => void {
  return () => {};
}

/** What `<tidings-error>` takes in JSX: its attributes, and, from React 19 on, `texts` and `onretry`. */
export interface TidingsErrorProps extends DetailedHTMLProps<HTMLAttributes<TidingsErrorElement>, TidingsErrorElement> {
  readonly workload?: string | undefined;
  readonly text?: string | undefined;
  readonly "no-retry"?: boolean | undefined;
  readonly disabled?: boolean | undefined;
  readonly texts?: Texts | null | undefined;
  readonly onretry?: ((event: CustomEvent) => void) | undefined;
}

declare module "react" {
  namespace JSX {
    interface IntrinsicElements {
      "tidings-error": TidingsErrorProps;
    }
  }
}
