package dev.tidings.client

import io.ktor.client.HttpClient
import io.ktor.client.statement.HttpResponse
import io.ktor.http.HttpMethod
import io.ktor.http.encodeURLParameter
import io.ktor.http.encodeURLPathPart
import kotlin.random.Random
import kotlin.time.Duration
import kotlin.time.Duration.Companion.seconds
import kotlin.time.TimeSource
import kotlinx.coroutines.CoroutineDispatcher
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.emitAll
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.flow.transformWhile
import kotlinx.coroutines.withContext

/** How a [TidingsClient] behaves; set in the block of its constructor. */
public class TidingsOptions internal constructor() {
    /** `summary`, `guidance` or `classification`. */
    public var workload: String = "summary"

    /** The language of all texts, such as `nb` or `pt-BR`; null leaves it to the server. */
    public var language: String? = null

    /** Gives the bearer token that is sent with each request; null sends none. */
    public var tokens: TokenSource? = null

    /** How long nothing may come before a stream counts as dead. It has to be well above the server's heartbeat of 15 s. */
    public var watchdog: Duration = 45.seconds

    /** Where the client reads and parses. It need not be the app's main thread, and should not. */
    public var dispatcher: CoroutineDispatcher = Dispatchers.Default

    /**
     * The clock of all waits and countdowns. The default one stands still on most systems while the
     * device sleeps: call [StatusSession.foreground] when it wakes.
     */
    public var timeSource: TimeSource.WithComparableMarks = TimeSource.Monotonic

    /** Stretches the pauses between connections, and makes idempotency keys. */
    public var random: Random = Random.Default

    /** Is told of dropped streams and refused requests, never of tokens or texts. It is called on any thread. */
    public var log: (String) -> Unit = {}

    /**
     * Gets every status of every session, in order, where [StatusSession.statuses] has only the newest:
     * for logs and tests. It must return quickly.
     */
    public var trace: (Status) -> Unit = {}

    internal fun copy() = TidingsOptions().also {
        it.workload = workload
        it.language = language
        it.tokens = tokens
        it.watchdog = watchdog
        it.dispatcher = dispatcher
        it.timeSource = timeSource
        it.random = random
        it.log = log
        it.trace = trace
    }
}

/**
 * Talks to one Tidings server about one workload.
 *
 * ```
 * val tidings = TidingsClient(HttpClient(), "https://tidings.example")
 * tidings.submit("session-1", Submission(transcript))
 * tidings.watch("session-1").collect { status -> render(status) }
 * ```
 *
 * [watch] follows one job to its end. An app with a user in front of it takes [open], whose
 * [StatusSession] can also retry, dismiss and come back from the background.
 *
 * A dropped stream is not an error: a new one is opened after the last event that was seen, with
 * growing, randomly stretched pauses. Only a server that refuses for good (204, or 4xx except 408, 425
 * and 429) ends it.
 *
 * Under it, [SseParser] turns bytes into messages, and [Machine] turns messages, time and taps into a
 * [State]. Both are pure. A session joins them to the network on one thread of its own; whatever an
 * older stream still has to say is dropped. The rules of both, and the cases they pass, are in the
 * vectors beside this client, shared with the clients in other languages.
 */
public class TidingsClient private constructor(
    private val connections: Connections,
    private val baseUrl: String,
    internal val options: TidingsOptions,
) {
    /**
     * @param httpClient with the engine of the platform. It stays the caller's, who closes it. Timeouts,
     *   retries and success checks it is set up with do not count here. Where the server speaks HTTP/2,
     *   give a function that makes them instead.
     * @param baseUrl the server's address, such as `https://tidings.example`.
     * @throws IllegalArgumentException for an address that is not absolute http or https.
     */
    public constructor(httpClient: HttpClient, baseUrl: String, configure: TidingsOptions.() -> Unit = {}) :
        this(Connections(httpClient, null), baseUrl, TidingsOptions().apply(configure))

    /**
     * @param newHttpClient makes an HTTP client with connections of its own, such as `okHttp()` does on
     *   the JVM: one now, and one each time the connections of the last cannot be trusted, after a dead
     *   stream and on [StatusSession.foreground].
     * @param baseUrl the server's address, such as `https://tidings.example`.
     * @throws IllegalArgumentException for an address that is not absolute http or https.
     */
    public constructor(baseUrl: String, newHttpClient: () -> HttpClient, configure: TidingsOptions.() -> Unit = {}) :
        this(Connections(newHttpClient(), newHttpClient), baseUrl, TidingsOptions().apply(configure))

    init {
        require(ABSOLUTE.matches(baseUrl)) { "\"$baseUrl\" is not an absolute http or https URL; write for example https://tidings.example" }
    }

    internal val http = Http(connections, baseUrl, options.language, options.tokens, options.log)

    /** The client of another workload. */
    public fun forWorkload(workload: String): TidingsClient =
        TidingsClient(connections, baseUrl, options.copy().also { it.workload = workload })

    /** Starts to follow a session, until it is closed or [scope] ends. The scope does not end before it is closed. */
    public fun open(sessionId: String, scope: CoroutineScope): StatusSession =
        StatusSession(this, sessionId, scope, path(sessionId, "/status"))

    /**
     * Starts to follow up to 100 sessions of one owner on one stream, each written as `id`, for the
     * client's workload, or as `id/workload`. It goes on until it is closed or [scope] ends. A session
     * without a job has the event [StatusEvent.Idle]. For other sessions open another list.
     */
    public fun openAll(sessions: List<String>, scope: CoroutineScope): StatusList = StatusList(this, sessions, scope)

    /**
     * Follows sessions as [openAll] does, while it is collected or until the server refuses the stream, with
     * [Status.problem] in the last statuses.
     */
    public fun watchAll(sessions: List<String>): Flow<Map<String, Status>> = flow {
        coroutineScope {
            openAll(sessions, this).use { list ->
                emitAll(list.statuses.transformWhile { statuses ->
                    emit(statuses)
                    statuses.values.none { it.connection == Connection.CLOSED }
                })
            }
        }
    }

    /** Fetches the latest event of each session, up to 50, in the order asked for: for a list that is drawn once. */
    public suspend fun statuses(sessions: List<String>): Answer<List<StatusEvent>> {
        val query = "?sessions=${sessions.joinToString(",").encodeURLParameter()}&workload=${options.workload.encodeURLParameter()}"
        return call(Request(HttpMethod.Get, "/api/v1/status$query"), CALL_LIMIT) { response ->
            bodyOf(response)?.objects("statuses")?.mapNotNull { StatusEvent.of(it.text("event").orEmpty(), it) }
        }
    }

    /**
     * Follows a session's job while it is collected, until its stream has ended for good: after
     * `completed` or `error`, of which [Status.phase] tells, or when the server refuses the stream, with
     * [Status.problem] in the last status. Dropped connections do not end it.
     */
    public fun watch(sessionId: String): Flow<Status> = flow {
        coroutineScope {
            open(sessionId, this).use { session ->
                emitAll(session.statuses.transformWhile { status ->
                    emit(status)
                    status.connection != Connection.CLOSED
                })
            }
        }
    }

    /**
     * Starts a job, or finds the one that already makes a document from the same input. Refused with 409
     * `job_running` while one with other input lives, with 503 when the server takes no more at the moment.
     */
    public suspend fun submit(sessionId: String, submission: Submission): Answer<SubmittedJob> {
        val key = submission.idempotencyKey ?: options.random.nextBytes(16).toHexString()
        val query = if (submission.replace) "?replace=true" else ""
        val headers = mapOf("Accept" to "application/json", "Idempotency-Key" to key)
        val request = Request(HttpMethod.Post, path(sessionId, query), headers, submission.toJson())
        return call(request, CALL_LIMIT) { bodyOf(it)?.let(::jobOf) }
    }

    /**
     * Fetches a session's current document. Refused with 404 before there is one. A newer job that runs
     * or fails does not hide it.
     */
    public suspend fun document(sessionId: String): Answer<Document> =
        call(Request(HttpMethod.Get, path(sessionId)), CALL_LIMIT) { bodyOf(it)?.let(::documentOf) }

    /** Fetches what happened to a session's newest job. */
    public suspend fun attempts(sessionId: String): Answer<Ledger> =
        call(Request(HttpMethod.Get, path(sessionId, "/attempts")), CALL_LIMIT) { bodyOf(it)?.let(::ledgerOf) }

    /** Ends a session's live job. Its stream then carries `error` with the reason `cancelled`. */
    public suspend fun cancel(sessionId: String): Answer<Unit> =
        call(Request(HttpMethod.Delete, path(sessionId, "/job")), TAP_LIMIT) { }

    /** The texts in the client's language, English without one. Keep the object: what it has fetched is kept by it. */
    public fun texts(): Texts = Texts(this, options.language)

    internal suspend fun retry(sessionId: String): Answer<Unit> =
        call(Request(HttpMethod.Post, path(sessionId, "/retry")), TAP_LIMIT) { }

    internal suspend fun <T : Any> call(request: Request, limit: Duration = CALL_LIMIT, read: suspend (HttpResponse) -> T?): Answer<T> =
        withContext(options.dispatcher) { http.call(request, limit, read) }

    /** The address of something of a session's workload: "" is the document. */
    internal fun path(sessionId: String, rest: String = ""): String =
        "/api/v1/sessions/${sessionId.encodeURLPathPart()}/${options.workload.encodeURLPathPart()}$rest"

    private companion object {
        val ABSOLUTE = Regex("https?://[^/?#\\s]+[^?#\\s]*", RegexOption.IGNORE_CASE)
        val TAP_LIMIT = 10.seconds // retry and cancel: somebody waits with a finger on the screen
        val CALL_LIMIT = 30.seconds
    }
}
