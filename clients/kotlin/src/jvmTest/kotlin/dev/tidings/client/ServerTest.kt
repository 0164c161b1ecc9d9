package dev.tidings.client

import io.ktor.client.HttpClient
import io.ktor.client.engine.cio.CIO
import kotlin.test.assertEquals
import kotlin.test.assertFalse
import kotlin.test.assertIs
import kotlin.test.assertNotNull
import kotlin.test.assertTrue
import kotlin.time.Duration
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds
import kotlin.time.TimeSource
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.flow.onEach
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withTimeout
import kotlinx.serialization.json.jsonObject
import org.junit.jupiter.api.AfterAll
import org.junit.jupiter.api.BeforeAll
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.parallel.Execution
import org.junit.jupiter.api.parallel.ExecutionMode

/** The client against the server itself, `tidings dev`, whose local model fails on request. */
@Execution(ExecutionMode.CONCURRENT)
class ServerTest {
    @Test
    fun aJobIsWatchedThroughARetryToItsDocument() = live("watched") { tidings, id ->
        val answer = tidings.submit(id, Submission("Vi snakket om søvn.", simulate = listOf("503", "ok")))
        assertIs<Answer.Ok<SubmittedJob>>(answer)
        val statuses = tidings.watch(id).toList()
        val retrying = statuses.last { it.phase == Phase.RETRYING }
        val event = assertIs<StatusEvent.Retrying>(retrying.event)
        assertEquals(1, retrying.retryAttempt)
        assertEquals("queue", event.layer)
        assertEquals("unavailable", event.reason)
        assertTrue(assertNotNull(event.message).isNotEmpty())
        assertTrue(assertNotNull(event.retryIn) in Duration.ZERO..2.seconds, "${event.retryIn}")
        assertNotNull(retrying.nextTry)
        val last = statuses.last()
        assertEquals(Phase.DONE, last.phase)
        assertEquals(1, assertIs<StatusEvent.Completed>(last.event).version)
        assertEquals(answer.value.id, last.event.jobId)
        val document = assertNotNull(tidings.document(id).valueOrNull())
        assertEquals(1, document.version)
        assertTrue(document.content.jsonObject.isNotEmpty())
    }

    @Test
    fun anErrorIsTriedAgainByHand() = live("by-hand") { tidings, id ->
        tidings.open(id, this).use { session ->
            session.until { it.event is StatusEvent.Idle }
            assertIs<Answer.Ok<*>>(session.submit(Submission("hei", simulate = listOf("503", "503", "ok"))))
            val failed = session.until { it.phase == Phase.ERROR }
            assertEquals("retries_exhausted", assertIs<StatusEvent.Failed>(failed.event).outcome)
            assertTrue(failed.canRetry)
            assertEquals("ai_workload_summary_error", failed.messageKey)
            assertEquals(Answer.Ok(Unit), session.retry())
            session.until { it.phase == Phase.DONE }
        }
    }

    @Test
    fun aLiveJobIsCancelled() = live("cancelled") { tidings, id ->
        tidings.open(id, this).use { session ->
            assertIs<Answer.Ok<*>>(session.submit(Submission("hei", simulate = listOf("503"))))
            session.until { it.phase == Phase.RETRYING }
            assertEquals(409, session.submit(Submission("something else")).problem?.status)
            assertEquals(Answer.Ok(Unit), session.cancel())
            assertEquals("cancelled", session.until { it.phase == Phase.ERROR }.event?.reason)
            assertEquals(404, session.document().problem?.status)
        }
    }

    @Test
    fun aBrokenConnectionIsResumedAfterTheLastEvent() = Relay(port()).use { relay ->
        live("broken", relay.address) { tidings, id ->
            tidings.open(id, this).use { session ->
                session.until { it.connection == Connection.OPEN }
                assertIs<Answer.Ok<*>>(session.submit(Submission("hei", simulate = listOf("503", "ok"))))
                val retrying = session.until { it.phase == Phase.RETRYING }
                relay.cut()
                val broken = session.until { it.connection == Connection.RECONNECTING }
                assertEquals(Phase.RETRYING, broken.phase, "a dropped stream alone is not shown")
                assertEquals(retrying.lastEventId, broken.lastEventId)
                relay.restore()
                val done = session.until { it.phase == Phase.DONE }
                assertFalse(assertNotNull(done.event).isReset)
                assertTrue(relay.requests.any { "Last-Event-ID: ${retrying.lastEventId}" in it }, "${relay.requests}")
            }
        }
    }

    @Test
    fun theServerSaysThatNothingComesAfterTheEnd() = live("ended") { tidings, id ->
        assertIs<Answer.Ok<*>>(tidings.submit(id, Submission("hei")))
        val last = tidings.watch(id).toList().last()
        assertEquals(Phase.DONE, last.phase)
        val end = CompletableDeferred<Input>()
        Stream(tidings.http, tidings.path(id, "/status"), last.lastEventId, last.lastEventId, 45.seconds, TimeSource.Monotonic, {}) { input, _ ->
            end.complete(input)
        }.start(this)
        assertEquals(Input.Disconnect(204), end.await())
    }

    @Test
    fun textsComeInTheClientsLanguage() = live("texts", configure = { language = "nn-NO" }) { tidings, _ ->
        val texts = tidings.texts()
        assertEquals(Answer.Ok(Unit), texts.load())
        assertEquals("nb", texts.language)
        assertEquals("Prøv igjen", texts[TextKeys.RETRY_BUTTON])
        assertEquals(Answer.Ok(Unit), texts.load(), "known by its ETag")
    }

    private suspend fun StatusSession.until(wanted: (Status) -> Boolean): Status = statuses.first(wanted)

    private fun live(
        id: String,
        address: String = api(),
        configure: TidingsOptions.() -> Unit = {},
        test: suspend CoroutineScope.(TidingsClient, String) -> Unit,
    ) {
        HttpClient(CIO).use { http ->
            val seen = mutableListOf<String>()
            val tidings = TidingsClient(http, address) {
                configure()
                trace = { synchronized(seen) { seen += "${it.phase} ${it.event} ${it.connection}" } }
            }
            runBlocking(Dispatchers.Default) {
                try {
                    withTimeout(30.seconds) { test(tidings, id) }
                } catch (e: Throwable) {
                    throw AssertionError("$e; so far\n${seen.joinToString("\n")}", e)
                }
            }
        }
    }

    companion object {
        private lateinit var server: Program

        private fun api() = server.announced("ready ").split(" ").first { it.startsWith("api=") }.removePrefix("api=")
        private fun port() = api().substringAfterLast(':').toInt()

        @BeforeAll
        @JvmStatic
        fun start() {
            server = Program.build("../../cmd/tidings", "tidings").start(
                "dev",
                environment = mapOf(
                    "TIDINGS_LISTEN" to "127.0.0.1:0",
                    "TIDINGS_OPS_LISTEN" to "127.0.0.1:0",
                    "TIDINGS_LOCAL_LATENCY" to "100ms",
                    "TIDINGS_CALLS" to "1",
                    "TIDINGS_QUEUE_ATTEMPTS" to "2",
                    "TIDINGS_QUEUE_DELAYS" to "2s",
                    "TIDINGS_LOG_LEVEL" to "error",
                ),
            )
        }

        @AfterAll
        @JvmStatic
        fun stop() {
            server.close()
        }
    }
}
