package dev.tidings.client

import io.ktor.client.statement.HttpResponse
import io.ktor.client.statement.bodyAsChannel
import io.ktor.http.HttpHeaders
import io.ktor.http.HttpMethod
import io.ktor.utils.io.readAvailable
import kotlin.time.Duration
import kotlin.time.Duration.Companion.seconds
import kotlin.time.TimeSource
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Job
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.delay
import kotlinx.coroutines.ensureActive
import kotlinx.coroutines.launch

/**
 * One connection. It reads until the end and tells what it has read, ending with one
 * [Input.Disconnect]; the problem beside that says why the server gave no stream.
 *
 * All of it runs on the one thread of its session, which drops what an older stream still has to say.
 */
internal class Stream(
    private val http: Http,
    private val path: String,
    private val cursor: String,
    seed: String,
    private val watchdog: Duration,
    private val clock: TimeSource,
    private val log: (String) -> Unit,
    private val tell: Stream.(Input, Problem?) -> Unit,
) {
    private val parser = SseParser(
        lastEventId = seed,
        onRetry = { tell(Input.RetryHint(it), null) },
        onMessage = { tell(Input.Event(it.event, it.data, it.id), null) },
    )
    /** What its connection belongs to. */
    val via = http.connections.newest
    private var heard = clock.markNow()
    private var isEnded = false
    private lateinit var job: Job

    /** The id to resume after. */
    val lastEventId: String get() = parser.lastEventId

    fun start(scope: CoroutineScope) {
        job = scope.launch {
            val watching = launch { watch() }
            follow()
            watching.cancel()
        }
    }

    /** Drops the connection. The rest of the bytes that are being read is still told. */
    fun close() {
        isEnded = true
        job.cancel()
    }

    private companion object {
        val BEGIN_LIMIT = 10.seconds
    }

    private suspend fun watch() {
        while (true) {
            val silent = heard.elapsedNow()
            if (silent >= watchdog) break
            delay(watchdog - silent)
        }
        log("stream silent for $watchdog: $path")
        end(null) // at once, not when the read notices: a dead one may never
        job.cancel()
    }

    private suspend fun follow() {
        try {
            http.exchange(Request(HttpMethod.Get, path, headers(), begin = BEGIN_LIMIT, via = via)) { read(it) }
        } catch (e: Throwable) { // some engines throw no Exception, and some cancel only the request
            currentCoroutineContext().ensureActive()
            log("stream lost: $path: $e")
            end(null)
        }
    }

    private fun headers() = mapOf(
        HttpHeaders.Accept to "text/event-stream",
        HttpHeaders.AcceptEncoding to "identity", // engines would ask for gzip, which holds events back
        "Last-Event-ID" to cursor,
    )

    private suspend fun read(response: HttpResponse) {
        val isStream = mediaType(response) == "text/event-stream"
        val status = if (response.status.value == 200 && !isStream) 406 else response.status.value
        if (status != 200) {
            log("stream refused with $status: $path")
            end(status, problemOf(response, status))
            return
        }
        tell(Input.Open, null)
        val body = response.bodyAsChannel()
        val chunk = ByteArray(4096)
        while (true) {
            currentCoroutineContext().ensureActive()
            val count = body.readAvailable(chunk)
            if (count < 0) break
            heard = clock.markNow()
            parser.feed(chunk, 0, count)
        }
        end(200)
    }

    private fun end(status: Int?, problem: Problem? = null) {
        if (isEnded) return
        isEnded = true
        if (status == null) http.connections.renew(via)
        tell(Input.Disconnect(status), problem)
    }
}
