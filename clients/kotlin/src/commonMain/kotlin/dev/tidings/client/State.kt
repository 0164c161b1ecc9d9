package dev.tidings.client

/** What the screen shows. */
public enum class Phase {
    /** The job waits for its turn or runs, or nothing is known yet. */
    LOADING,

    /** The job waits for another try after one that failed. */
    RETRYING,

    /** There will be no document unless somebody tries again. */
    ERROR,

    /** The document is there. */
    DONE,

    /** The user looks elsewhere, and the screen must not come back by itself. */
    DISMISSED,
}

/** Whether a stream is up. */
public enum class Connection {
    /** The stream is up. */
    OPEN,

    /** Wanted but not up: under way or scheduled. */
    RECONNECTING,

    /** No stream is wanted now. */
    CLOSED,
}

/** What is known of the job, whatever the screen shows. */
public enum class Outcome {
    /** Not yet known. */
    PENDING,

    /** The document is there. */
    COMPLETED,

    /** The job has ended without one. */
    FAILED,
}

/** What a view draws. All of it follows from what the machine has seen. */
public data class State(
    public val phase: Phase,
    /** Whether something turns. It stops 30 s after the start, whatever comes later. */
    public val spinner: Boolean,
    /** The key of the text to show, see [Texts]; null for none. */
    public val messageKey: String?,
    /** While [phase] is retrying, the attempt that has failed, from 1; null if unknown. */
    public val retryAttempt: Int?,
    /** Whether "try again" may be offered. */
    public val canRetry: Boolean,
    /** Whether "I'll see this later" may be offered. */
    public val canDismiss: Boolean,
    public val connection: Connection,
    /** When a scheduled subscribe is due, in milliseconds since the machine was made; null for none. */
    public val resubscribeAt: Long?,
    /** The position in the stream, which the next one is asked for after. */
    public val lastEventId: String,
    /** What a dismissed view reads to learn that the document is ready. */
    public val outcome: Outcome,
)

/** The texts an app shows by itself: keys of [Texts]. */
public object TextKeys {
    /** While the job waits for another try. */
    public const val BUSY_RETRYING: String = "ai_service_busy_retrying"

    /** On the button while [State.canRetry]. */
    public const val RETRY_BUTTON: String = "ai_workload_retry_button"

    /** On the button while [State.canDismiss]. */
    public const val SEE_LATER: String = "session_see_later"

    /** After a countdown has run out and nothing has come: the client asks by a new connection. */
    public const val CHECKING: String = "session_checking_connection"

    /** While a workload's document is being made. */
    public fun compiling(workload: String): String = "session_${workload}_compiling"

    /** After 30 s of that. */
    public fun takingLonger(workload: String): String = "session_${workload}_taking_longer"

    /** The text that says a workload's document could not be made. */
    public fun error(workload: String): String = "ai_workload_${workload}_error"
}
