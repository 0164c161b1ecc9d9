@file:OptIn(ExperimentalCoroutinesApi::class)

package dev.tidings.client

import io.ktor.client.HttpClient
import io.ktor.client.HttpClientConfig
import io.ktor.client.engine.mock.MockEngine
import io.ktor.client.engine.mock.MockEngineConfig
import io.ktor.client.engine.mock.MockRequestHandleScope
import io.ktor.client.engine.mock.respond
import io.ktor.client.request.HttpRequestData
import io.ktor.client.request.HttpResponseData
import io.ktor.http.ContentType
import io.ktor.http.Headers
import io.ktor.http.HttpStatusCode
import io.ktor.http.content.TextContent
import io.ktor.http.headersOf
import io.ktor.utils.io.ByteChannel
import io.ktor.utils.io.writeStringUtf8
import kotlin.test.assertEquals
import kotlin.test.fail
import kotlin.time.Duration
import kotlin.time.Duration.Companion.hours
import kotlin.time.Duration.Companion.milliseconds
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.delay
import kotlinx.coroutines.test.StandardTestDispatcher
import kotlinx.coroutines.test.TestResult
import kotlinx.coroutines.test.TestScope
import kotlinx.coroutines.test.currentTime
import kotlinx.coroutines.test.runCurrent
import kotlinx.coroutines.test.runTest
import kotlinx.coroutines.test.testTimeSource
import kotlinx.coroutines.withTimeoutOrNull
import kotlinx.io.IOException

/** A client and a server without a network, in virtual time: the test takes each request and answers as it likes. */
internal class Bubble(
    val scope: TestScope,
    setUp: HttpClientConfig<*>.() -> Unit,
    configure: TidingsOptions.() -> Unit,
) {
    private val requests = Channel<FakeRequest>(Channel.UNLIMITED)
    private val thread = StandardTestDispatcher(scope.testScheduler)
    private val engine = MockEngine(
        MockEngineConfig().apply {
            dispatcher = thread
            addHandler { data ->
                val request = FakeRequest(this@Bubble, this, data)
                requests.send(request)
                try {
                    request.answer.await()
                } finally {
                    if (!request.answer.isCompleted) request.isDropped = true
                }
            }
        },
    )
    val client = TidingsClient(HttpClient(engine, setUp), "https://api.test/") {
        dispatcher = thread
        timeSource = scope.testTimeSource
        configure()
    }

    /** What the virtual clock shows. */
    val now: Duration get() = scope.currentTime.milliseconds

    fun open(): StatusSession = client.open("abc-123", scope.backgroundScope)

    /** The next request; the test fails when none comes within an hour. */
    suspend fun next(): FakeRequest = withTimeoutOrNull(1.hours) { requests.receive() } ?: fail("no request came")

    /** The next request, begun as a stream. */
    suspend fun nextStream(): FakeStream = next().stream()

    /** Fails the test when a request comes within [time]. */
    suspend fun quiet(time: Duration) {
        withTimeoutOrNull(time) { requests.receive() }?.let { fail("unexpected request ${it.method} ${it.path}") }
    }

    /** Lets virtual time go by. */
    suspend fun pass(time: Duration) {
        delay(time)
        scope.runCurrent()
    }
}

/** Runs a test in a bubble. [setUp] is what the app has done to its HTTP client. */
internal fun bubble(
    configure: TidingsOptions.() -> Unit = {},
    setUp: HttpClientConfig<*>.() -> Unit = {},
    test: suspend Bubble.() -> Unit,
): TestResult = runTest { Bubble(this, setUp, configure).test() }

internal class FakeRequest(private val bubble: Bubble, private val handler: MockRequestHandleScope, private val data: HttpRequestData) {
    val answer = CompletableDeferred<HttpResponseData>()
    var isDropped = false
    val method: String get() = data.method.value
    val path: String get() = data.url.encodedPathAndQuery
    val headers: Headers get() = data.headers
    val body: String get() = (data.body as TextContent).text

    /** Answers with a whole body. */
    fun reply(status: Int, body: String = "", vararg headers: Pair<String, String>) {
        val type = if (status >= 400) "application/problem+json" else "application/json"
        val all = Headers.build {
            append("Content-Type", type)
            for ((name, value) in headers) append(name, value)
        }
        answer.complete(handler.respond(body, HttpStatusCode.fromValue(status), all))
    }

    /** Begins an event stream. */
    fun stream(): FakeStream {
        val channel = ByteChannel()
        answer.complete(handler.respond(channel, HttpStatusCode.OK, headersOf("Content-Type", ContentType.Text.EventStream.toString())))
        bubble.scope.runCurrent()
        return FakeStream(bubble.scope, channel)
    }
}

/** The body of a stream that is being written. */
internal class FakeStream(private val scope: TestScope, private val channel: ByteChannel) {
    val isDropped: Boolean get() = channel.isClosedForWrite

    /** Writes to the stream and waits until the client has dealt with it. */
    suspend fun send(text: String) {
        sendUnread(text)
        scope.runCurrent()
    }

    /** Writes to the stream only. */
    suspend fun sendUnread(text: String) {
        channel.writeStringUtf8(text)
        channel.flush()
    }

    suspend fun event(name: String, data: String = "{}"): Unit = send("event: $name\ndata: $data\n\n")

    suspend fun end() {
        channel.flushAndClose()
        scope.runCurrent()
    }

    fun breakOff() {
        channel.cancel(IOException("the connection broke"))
        scope.runCurrent()
    }
}

internal fun assertBetween(low: Duration, high: Duration, actual: Duration) {
    if (actual !in low..high) assertEquals("$low to $high", "$actual")
}
