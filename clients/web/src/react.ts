import { useEffect, useMemo, useRef, useState, useSyncExternalStore, type DetailedHTMLProps, type HTMLAttributes } from "react";
import { initialStatus, subscribeSummaryStatus, type StatusSubscription, type SubscribeOptions } from "./subscription.js";
import type { Document } from "./documents.js";
import type { StatusList, Statuses } from "./list.js";
import type { SummaryStatus } from "./view.js";
import type { Texts } from "./texts.js";
import type { TidingsErrorElement } from "./tidings-error.js";

/**
 * The status of a subscription that somebody else owns: for a view that may go while
 * the stream stays.
 */
export function useStatus(subscription: StatusSubscription): SummaryStatus {
  return useSyncExternalStore(subscription.subscribe, subscription.getSnapshot, subscription.getSnapshot);
}

/** The statuses of a list that somebody else owns. */
export function useStatuses(list: StatusList): Statuses {
  return useSyncExternalStore(list.subscribe, list.getSnapshot, list.getSnapshot);
}

/**
 * Seconds until a job that waits goes on, counted down; null when there is no such time.
 * A 1 stays until the job goes on.
 */
export function useCountdown(subscription: StatusSubscription | null): number | null {
  const [seconds, setSeconds] = useState<number | null>(null);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const count = () => {
      clearTimeout(timer);
      const left = subscription?.retryInMs() ?? null;
      setSeconds(left === null ? null : Math.max(Math.ceil(left / 1000), 1));
      if (left !== null && left > 0) timer = setTimeout(count, left % 1000 || 1000);
    };
    count();
    const stop = subscription?.subscribe(count);
    return () => {
      clearTimeout(timer);
      stop?.();
    };
  }, [subscription]);
  return seconds;
}

/** What `useDocument` returns. */
export interface UseDocument {
  readonly document: Document | null;
  /** Why it could not be fetched. */
  readonly error: unknown;
  /** Fetches it again. */
  readonly reload: () => void;
}

/** The current document: fetched at once, and again whenever a job is completed. */
export function useDocument(subscription: StatusSubscription | null): UseDocument {
  const [found, setFound] = useState<{ of: StatusSubscription | null; document: Document | null; error: unknown }>({ of: null, document: null, error: null });
  const [asked, setAsked] = useState(0);
  const isCompleted = () => subscription?.getSnapshot().outcome === "completed";
  const completed = useSyncExternalStore(subscription?.subscribe ?? nothingToHear, isCompleted, () => false);
  useEffect(() => {
    let isCurrent = true;
    subscription?.document().then(
      (document) => isCurrent && setFound({ of: subscription, document, error: null }),
      (error: unknown) => isCurrent && setFound((before) => ({ of: subscription, document: before.of === subscription ? before.document : null, error })),
    );
    return () => void (isCurrent = false);
  }, [subscription, completed, asked]);
  const mine = found.of === subscription;
  return { document: mine ? found.document : null, error: mine ? found.error : null, reload: () => setAsked((n) => n + 1) };
}

/** What `useSummaryStatus` takes. */
export interface UseSummaryStatusOptions extends SubscribeOptions {
  /** False leaves the stream closed: while the session is not known yet, or the view is not seen. */
  readonly enabled?: boolean | undefined;
}

/** What `useSummaryStatus` returns. */
export interface UseSummaryStatus {
  readonly status: SummaryStatus;
  /** For `retry`, `dismiss`, `submit` and the rest; null during the first render, also that after a change, on a server, and while not `enabled`. */
  readonly subscription: StatusSubscription | null;
}

/**
 * Follows a session's status for as long as the component is there. A change of
 * `baseUrl`, `sessionId`, `workload`, `language` or `enabled` starts over; of the other
 * options those of the first render after that are used, but for the `on` functions, of
 * which the newest are called.
 */
export function useSummaryStatus(options: UseSummaryStatusOptions): UseSummaryStatus {
  const { baseUrl, sessionId, workload, language, enabled = true } = options;
  const newest = useRef(options);
  const address = JSON.stringify([baseUrl, sessionId, workload, language]);
  const [opened, setOpened] = useState<{ address: string; subscription: StatusSubscription } | null>(null);
  const initial = useMemo(() => initialStatus(sessionId, workload), [sessionId, workload]);
  useEffect(() => void (newest.current = options));
  useEffect(() => {
    if (!enabled) return;
    const subscription = subscribeSummaryStatus({
      ...options,
      onOpen: () => newest.current.onOpen?.(),
      onError: (problem) => newest.current.onError?.(problem),
      onRetrying: (delayMs) => newest.current.onRetrying?.(delayMs),
      onComplete: (status) => newest.current.onComplete?.(status),
    });
    setOpened({ address, subscription });
    return () => {
      subscription.close();
      setOpened(null);
    };
    // A new object with the same address must not open a new stream.
  }, [address, enabled]);
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
