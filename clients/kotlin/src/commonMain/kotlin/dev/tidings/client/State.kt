package dev.tidings.client

/** What the screen shows. */
public enum class Phase {
    LOADING,
    RETRYING,
    ERROR,
    DONE,

    /** The user looks elsewhere, and the screen must not come back by itself. */
    DISMISSED,
}

/** Whether a stream is up. */
public enum class Connection {
    OPEN,

    /** Wanted but not up: under way or scheduled. */
    RECONNECTING,

    /** No stream is wanted now. */
    CLOSED,
}

/** What is known of the job, whatever the screen shows. */
public enum class Outcome { PENDING, COMPLETED, FAILED }

/** What a view draws. All of it follows from what the machine has seen. */
public data class State(
    public val phase: Phase,
    public val spinner: Boolean,
    /** The key of the text to show, see [Texts]; null for none. */
    public val messageKey: String?,
    public val retryAttempt: Int?,
    public val canRetry: Boolean,
    public val canDismiss: Boolean,
    public val connection: Connection,
    /** When a scheduled subscribe is due, in milliseconds since the machine was made; null for none. */
    public val resubscribeAt: Long?,
    public val lastEventId: String,
    public val outcome: Outcome,
)

/** The texts an app shows by itself: keys of [Texts]. */
public object TextKeys {
    public const val COMPILING: String = "session_summary_compiling"
    public const val TAKING_LONGER: String = "session_summary_taking_longer"
    public const val BUSY_RETRYING: String = "ai_service_busy_retrying"
    public const val RETRY_BUTTON: String = "ai_workload_retry_button"
    public const val SEE_LATER: String = "session_see_later"

    /** The text that says a workload's document could not be made. */
    public fun error(workload: String): String = "ai_workload_${workload}_error"
}
