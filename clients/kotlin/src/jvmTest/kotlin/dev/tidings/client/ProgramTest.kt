package dev.tidings.client

import io.ktor.client.HttpClient
import io.ktor.client.engine.cio.CIO
import java.io.File
import java.util.concurrent.CopyOnWriteArrayList
import kotlin.test.assertEquals
import kotlin.test.assertFalse
import kotlin.test.assertIs
import kotlin.test.assertNotNull
import kotlin.test.assertTrue
import kotlin.time.Duration
import kotlin.time.Duration.Companion.minutes
import kotlin.time.Duration.Companion.seconds
import kotlin.time.TimeSource
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withTimeout
import kotlinx.serialization.json.jsonObject
import org.junit.jupiter.api.AfterAll
import org.junit.jupiter.api.BeforeAll
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.parallel.Execution
import org.junit.jupiter.api.parallel.ExecutionMode

/** The client against the real program, `tidings dev`, whose local model fails on request. */
@Execution(ExecutionMode.CONCURRENT)
class ProgramTest {
    @Test
    fun aJobIsWatchedThroughBothLayersOfRetriesToItsDocument() = live("watched") { tidings, id, seen ->
        val (answer, last) = tidings.open(id, this).use { session ->
            session.until { it.event is StatusEvent.Idle } // this stream carries the job from its first event on
            val answer = tidings.submit(id, Submission("Vi snakket om søvn.", simulate = listOf("503", "503", "ok")))
            answer to session.until { it.phase == Phase.DONE }
        }
        assertIs<Answer.Ok<SubmittedJob>>(answer)
        val retrying = seen.filter { it.phase == Phase.RETRYING }
        val events = retrying.map { assertIs<StatusEvent.Retrying>(it.event) }
        assertEquals(listOf<String?>("call", "queue"), events.map { it.layer }.distinct())
        for ((status, event) in retrying zip events) {
            assertEquals(1, status.retryAttempt)
            assertEquals("unavailable", event.reason)
            assertTrue(assertNotNull(event.message).isNotEmpty())
            assertTrue(assertNotNull(event.retryIn) in Duration.ZERO..3.seconds, "${event.retryIn}")
            assertNotNull(status.nextTry)
        }
        val connections = seen.map { it.connection }.distinct()
        assertEquals(listOf(Connection.RECONNECTING, Connection.OPEN, Connection.CLOSED), connections, "one stream was enough")
        assertEquals(1, assertIs<StatusEvent.Completed>(last.event).version)
        assertEquals(answer.value.id, last.event.jobId)
        val document = assertNotNull(tidings.document(id).valueOrNull())
        assertEquals(1, document.version)
        assertTrue(document.content.jsonObject.isNotEmpty())
    }

    @Test
    fun anErrorIsTriedAgainByHand() = live("by-hand") { tidings, id, _ ->
        tidings.open(id, this).use { session ->
            session.until { it.event is StatusEvent.Idle }
            assertIs<Answer.Ok<*>>(session.submit(Submission("hei", simulate = List(4) { "503" } + "ok")))
            val failed = session.until { it.phase == Phase.ERROR }
            assertEquals("retries_exhausted", assertIs<StatusEvent.Failed>(failed.event).outcome)
            assertTrue(failed.canRetry)
            assertEquals("ai_workload_summary_error", failed.messageKey)
            assertEquals(Answer.Ok(Unit), session.retry())
            session.until { it.phase == Phase.DONE }
        }
    }

    @Test
    fun aLiveJobIsCancelled() = live("cancelled") { tidings, id, _ ->
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
        live("broken", relay.address) { tidings, id, _ ->
            tidings.open(id, this).use { session ->
                session.until { it.connection == Connection.OPEN }
                assertIs<Answer.Ok<*>>(session.submit(Submission("hei", simulate = listOf("503", "503", "ok"))))
                val retrying = session.until { (it.event as? StatusEvent.Retrying)?.layer == "queue" }
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
    fun theServerSaysThatNothingComesAfterTheEnd() = live("ended") { tidings, id, _ ->
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
    fun textsComeInTheClientsLanguage() = live("texts", configure = { language = "nn-NO" }) { tidings, _, _ ->
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
        test: suspend CoroutineScope.(TidingsClient, String, List<Status>) -> Unit,
    ) {
        HttpClient(CIO) {
            engine { requestTimeout = 500 } // its own, which would cut every stream
        }.use { http ->
            val seen = CopyOnWriteArrayList<Status>()
            val tidings = TidingsClient(http, address) {
                configure()
                trace = { seen += it }
            }
            runBlocking(Dispatchers.Default) {
                try {
                    withTimeout(1.minutes) { test(tidings, id, seen) }
                } catch (e: Throwable) {
                    throw AssertionError("$e; so far\n${seen.joinToString("\n") { "${it.phase} ${it.event} ${it.connection}" }}", e)
                }
            }
        }
    }

    companion object {
        private lateinit var program: Program

        private fun api() = program.announced("ready ").split(" ").first { it.startsWith("api=") }.removePrefix("api=")
        private fun port() = api().substringAfterLast(':').toInt()

        @BeforeAll
        @JvmStatic
        fun start() {
            val given = System.getenv("TIDINGS_PROGRAM").orEmpty()
            val built = if (given.isEmpty()) Program.build("../../cmd/tidings", "tidings") else Program.Built(File(given))
            program = built.start(
                "dev",
                environment = mapOf(
                    "TIDINGS_LISTEN" to "127.0.0.1:0",
                    "TIDINGS_OPS_LISTEN" to "127.0.0.1:0",
                    "TIDINGS_LOCAL_LATENCY" to "100ms",
                    "TIDINGS_CALLS" to "2",
                    "TIDINGS_CALL_FIRST_PAUSE" to "100ms",
                    "TIDINGS_CALL_JITTER" to "0",
                    "TIDINGS_QUEUE_ATTEMPTS" to "2",
                    "TIDINGS_QUEUE_DELAYS" to "2s",
                    "TIDINGS_LOG_LEVEL" to "error",
                ),
            )
        }

        @AfterAll
        @JvmStatic
        fun stop() {
            program.close()
        }
    }
}
