package dev.tidings.client

import kotlin.time.Duration

/** What came of a request. Requests do not throw, unless their coroutine is cancelled. */
public sealed interface Answer<out T> {
    /** The server has done it. */
    public data class Ok<out T>(val value: T) : Answer<T>

    /** The server has not done it, and says why. */
    public data class Refused(val problem: Problem) : Answer<Nothing>

    /**
     * There was no answer, or none that could be read: no network, no token, too late. Whether the
     * server has done it is not known.
     */
    public data class None(val cause: Throwable) : Answer<Nothing>

    /** The status does not offer it, a submission has overtaken it, or the session is closed. */
    public data object NotOffered : Answer<Nothing>
}

/** What the server sent; null unless it did what was asked. */
public fun <T> Answer<T>.valueOrNull(): T? = (this as? Answer.Ok)?.value

/** Why the server refused; null if it did not. */
public val Answer<*>.problem: Problem? get() = (this as? Answer.Refused)?.problem

/** An answer that was not the wanted one. [title] and [detail] are texts for people, in the client's language. */
public data class Problem(
    /** The HTTP status. */
    public val status: Int,
    /** The server's stable name for what is wrong, such as `job_running`. */
    public val code: String? = null,
    /** What is wrong, in a few words. */
    public val title: String? = null,
    /** What is wrong and what to do, in a sentence. */
    public val detail: String? = null,
    /** What to tell the operators. */
    public val requestId: String? = null,
    /** The part of the request that is wrong. */
    public val field: String? = null,
    /** The job that is in the way. */
    public val jobId: String? = null,
    /** How long the server asks to wait; null when it does not say. */
    public val retryAfter: Duration? = null,
)
