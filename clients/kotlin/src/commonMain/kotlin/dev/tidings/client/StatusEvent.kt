package dev.tidings.client

import kotlin.time.Duration
import kotlin.time.Instant
import kotlinx.serialization.json.JsonObject

/**
 * What an accepted event said. The server may leave out any of it: a field it did not send, or sent
 * with another type, is null. Times are the server's; [Status] has them on the client's own clock.
 *
 * Two events are equal only if they are the same object: the server sends none twice.
 *
 * @property name the event's name in the stream.
 * @property fields everything the event carried, also what this version of the client has no name for.
 */
public sealed class StatusEvent(public val name: String, public val fields: JsonObject) {
    /** The session it is about. */
    public val sessionId: String? = fields.text("session_id")

    /** What is made for the session. */
    public val workload: String? = fields.text("workload")

    /** The job it is about. */
    public val jobId: String? = fields.text("job_id")

    /** The event's number, growing over the jobs of a session. */
    public val seq: Long? = fields.integer("seq")

    /** The attempt that runs or has just failed, from 1; 0 while the first one waits. */
    public val attempt: Int? = fields.count("attempt")

    /** How many attempts the job may have. */
    public val maxAttempts: Int? = fields.count("max_attempts")

    /** When the job came into this status. */
    public val at: Instant? = fields.time("at")

    /** When the server sent this copy. */
    public val serverTime: Instant? = fields.time("server_time")

    /** When the server gives the job up. */
    public val deadlineAt: Instant? = fields.time("deadline_at")

    /** Why the job waits, or why it ended. */
    public val reason: String? = fields.text("reason")

    /** Why, in words of the client's language. */
    public val message: String? = fields.text("message")

    /** The server could not resume after the last position. */
    public val isReset: Boolean = fields.flag("reset") == true

    override fun toString(): String = "$name(seq=$seq, reason=$reason)"

    /** The job waits for its turn. */
    public class Queued internal constructor(fields: JsonObject) : StatusEvent("queued", fields) {
        /** When it waits for more than its turn: until then at least. */
        public val notBefore: Instant? = fields.time("not_before")
    }

    /** The job runs. */
    public class Processing internal constructor(fields: JsonObject) : StatusEvent("processing", fields) {
        /** The call to the model inside the attempt, from 1. */
        public val call: Int? = fields.count("call")

        /** How many calls the attempt may make. */
        public val maxCalls: Int? = fields.count("max_calls")
    }

    /** The job waits for another try after one that failed. */
    public class Retrying internal constructor(fields: JsonObject) : StatusEvent("retrying", fields) {
        /** What is tried again: the whole attempt, `queue`, or one call inside it, `call`. */
        public val layer: String? = fields.text("layer")

        /** layer `queue`: the attempt that comes. */
        public val nextAttempt: Int? = fields.count("next_attempt")

        /** layer `call`: the call that has failed. */
        public val call: Int? = fields.count("call")

        /** layer `call`: the call that comes. */
        public val nextCall: Int? = fields.count("next_call")

        /** How many calls the attempt may make. */
        public val maxCalls: Int? = fields.count("max_calls")

        /** When the job goes on; with layer `queue` never before. */
        public val nextRetryAt: Instant? = fields.time("next_retry_at")

        /** What was left until then when the server sent this. */
        public val retryIn: Duration? = fields.duration("retry_in_ms")

        /** The key of [userMessage]. */
        public val userMessageKey: String? = fields.text("user_message_key")

        /** What to tell a user who waits, in the client's language. */
        public val userMessage: String? = fields.text("user_message")
    }

    /** The document is there. */
    public class Completed internal constructor(fields: JsonObject) : StatusEvent("completed", fields) {
        /** How it ended, by its name in the contract. */
        public val outcome: String? = fields.text("outcome")

        /** The document's version. */
        public val version: Long? = fields.integer("version")

        /** The document's address on the server. */
        public val documentUrl: String? = fields.text("document_url")
    }

    /** The job has ended without a document. */
    public class Failed internal constructor(fields: JsonObject) : StatusEvent("error", fields) {
        /** How it ended, by its name in the contract. */
        public val outcome: String? = fields.text("outcome")

        /** The key of the workload's error text, see [Texts]. */
        public val messageKey: String? = fields.text("message_key")

        /** Whether the server takes a retry by hand. */
        public val canRetry: Boolean? = fields.flag("can_retry")

        /** When it takes one again. */
        public val retryAvailableAt: Instant? = fields.time("retry_available_at")
    }

    /** No job is known. */
    public class Idle internal constructor(fields: JsonObject) : StatusEvent("idle", fields) {
        /** A job that appears is sent on this stream. */
        public val staysOpen: Boolean = fields.flag("stays_open") == true
    }

    public companion object {
        /**
         * Reads an event by its [name] in the stream and its [data], which is an object as JSON;
         * anything else is taken for an empty one. Null for a name the contract does not have.
         */
        public fun of(name: String, data: String): StatusEvent? = of(name, readObject(data))

        internal fun of(name: String, fields: JsonObject): StatusEvent? = when (name) {
            "queued" -> Queued(fields)
            "processing" -> Processing(fields)
            "retrying" -> Retrying(fields)
            "completed" -> Completed(fields)
            "error" -> Failed(fields)
            "idle" -> Idle(fields)
            else -> null
        }
    }
}
