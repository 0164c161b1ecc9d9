package dev.tidings.client

import kotlin.time.ComparableTimeMark
import kotlin.time.Duration

/** A [State] with what the app may want to show beside it. */
public data class Status(
    /** What the state machine says. */
    public val state: State,
    /** The last accepted event; null before the first. */
    public val event: StatusEvent? = null,
    /** When a job that is retrying goes on, on the client's clock; null for none. See [retryIn]. */
    public val nextTry: ComparableTimeMark? = null,
    /** When the server takes a retry by hand again, on the client's clock; null for now. See [retryAllowedIn]. */
    public val retryFrom: ComparableTimeMark? = null,
    /**
     * Why the server refused the stream or the last retry; null if it did not. A retry that got no
     * answer at all leaves it null, too.
     */
    public val problem: Problem? = null,
) {
    /** See [State.phase]. */
    public val phase: Phase get() = state.phase

    /** See [State.spinner]. */
    public val spinner: Boolean get() = state.spinner

    /** The key of the text to show, see [Texts]; null for none. */
    public val messageKey: String? get() = state.messageKey

    /** See [State.retryAttempt]. */
    public val retryAttempt: Int? get() = state.retryAttempt

    /** Whether to offer "try again": the state allows it and the server's last event does not refuse it. */
    public val canRetry: Boolean get() = state.canRetry && (event as? StatusEvent.Failed)?.canRetry != false

    /** See [State.canDismiss]. */
    public val canDismiss: Boolean get() = state.canDismiss

    /** See [State.connection]. */
    public val connection: Connection get() = state.connection

    /** See [State.lastEventId]. */
    public val lastEventId: String get() = state.lastEventId

    /** See [State.outcome]. */
    public val outcome: Outcome get() = state.outcome

    /**
     * How long until a job that is retrying goes on; null when there is no such time. Right also when
     * the device's time of day is wrong.
     */
    public fun retryIn(): Duration? = nextTry?.let(::left)

    /** How long until the server takes a retry by hand; zero for now. */
    public fun retryAllowedIn(): Duration = retryFrom?.let(::left) ?: Duration.ZERO

    private fun left(mark: ComparableTimeMark) = (-mark.elapsedNow()).coerceAtLeast(Duration.ZERO)
}
