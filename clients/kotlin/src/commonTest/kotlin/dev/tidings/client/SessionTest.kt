package dev.tidings.client

import io.ktor.client.HttpClient
import io.ktor.client.engine.mock.MockEngine
import io.ktor.client.engine.mock.respondOk
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertFalse
import kotlin.test.assertIs
import kotlin.test.assertNotNull
import kotlin.test.assertNull
import kotlin.test.assertTrue
import kotlin.time.Duration
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.minutes
import kotlin.time.Duration.Companion.seconds
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.async
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.flow.take
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.launch
import kotlinx.coroutines.test.TestResult

class SessionTest {
    @Test
    fun theSpinnerStopsAfterThirtySecondsWhateverHappens() = bubble {
        val session = open()
        val stream = nextStream()
        pass(29999.milliseconds)
        assertTrue(session.statuses.value.spinner)
        pass(1.milliseconds)
        val status = session.statuses.value
        assertFalse(status.spinner)
        assertEquals(TextKeys.takingLonger("summary"), status.messageKey)
        assertEquals(Connection.OPEN, status.connection)
        stream.event("retrying")
        assertFalse(session.statuses.value.spinner, "an event brings the spinner back")
    }

    @Test
    fun aSlowReaderGetsTheNewestState() = bubble {
        val session = open()
        val stream = nextStream()
        val read = mutableListOf<Int?>()
        val reading = scope.backgroundScope.launch {
            session.statuses.collect {
                read += it.retryAttempt
                delay(1.minutes)
            }
        }
        pass(1.seconds)
        for (attempt in 1..100) stream.event("retrying", """{"seq":$attempt,"attempt":$attempt}""")
        stream.send(": heartbeat\n\n")
        pass(1.minutes)
        assertEquals(listOf(null, 100), read)
        reading.cancel()
    }

    @Test
    fun traceGetsEveryStateInOrder(): TestResult {
        val traced = mutableListOf<Status>()
        return bubble({ trace = { traced += it } }) {
            open()
            val stream = nextStream()
            for (attempt in 1..3) stream.event("retrying", """{"seq":$attempt,"attempt":$attempt}""")
            assertEquals(listOf(null, null, 1, 2, 3), traced.map { it.retryAttempt })
        }
    }

    /** The server's clock is years off; what was left is what counts. */
    @Test
    fun theCountdownRunsOnTheClientsClock() = bubble {
        val session = open()
        val stream = nextStream()
        stream.event("retrying", """{"retry_in_ms":28500,"next_retry_at":"2031-01-01T00:00:30.000Z","server_time":"2031-01-01T00:00:00.000Z"}""")
        assertEquals(28500.milliseconds, session.statuses.value.retryIn())
        pass(8500.milliseconds)
        assertEquals(20.seconds, session.statuses.value.retryIn())
        stream.event("retrying", """{"next_retry_at":"2031-01-01T00:01:00.000Z","server_time":"2031-01-01T00:00:30.000Z"}""")
        assertEquals(30.seconds, session.statuses.value.retryIn(), "without retry_in_ms")
        stream.event("processing")
        assertNull(session.statuses.value.retryIn(), "while it works")
        stream.event("error", """{"retry_available_at":"2031-01-01T00:02:00.000Z","server_time":"2031-01-01T00:01:00.000Z"}""")
        assertEquals(1.minutes, session.statuses.value.retryAllowedIn())
        pass(2.minutes)
        assertEquals(Duration.ZERO, session.statuses.value.retryAllowedIn())
    }

    @Test
    fun aRefusedStreamEndsTheCountdown() = bubble {
        val session = open()
        val stream = nextStream()
        stream.event("retrying", """{"retry_in_ms":28500}""")
        stream.breakOff()
        next().reply(403, "{}")
        pass(1.milliseconds)
        assertEquals(Phase.ERROR, session.statuses.value.phase)
        assertNull(session.statuses.value.nextTry)
    }

    @Test
    fun retryGivesUpAfterTenSeconds() = bubble {
        val session = open()
        nextStream().event("error")
        val start = now
        val retrying = scope.async { session.retry() }
        val request = next()
        assertEquals("POST", request.method)
        assertEquals("/api/v1/sessions/abc-123/summary/retry", request.path)
        assertEquals(Phase.LOADING, session.statuses.value.phase)
        assertTrue(session.statuses.value.spinner)
        assertIs<Answer.None>(retrying.await())
        assertEquals(10.seconds, now - start)
        val status = session.statuses.value
        assertEquals(Phase.ERROR, status.phase)
        assertTrue(status.canRetry)
        assertNull(status.problem)
    }

    @Test
    fun retryOnlyWhereItIsOffered() = bubble {
        val session = open()
        val stream = nextStream()
        assertEquals(Answer.NotOffered, session.retry(), "while it loads")
        stream.event("error", """{"can_retry":false}""")
        assertFalse(session.statuses.value.canRetry)
        assertEquals(Answer.NotOffered, session.retry(), "against can_retry false")
        quiet(1.minutes)
    }

    @Test
    fun retryFollowsTheNewJob() = bubble {
        val session = open()
        nextStream().send("id: 7\nevent: error\ndata: {\"seq\":7}\n\n")
        val retrying = scope.async { session.retry() }
        next().reply(202, "{}")
        assertEquals(Answer.Ok(Unit), retrying.await())
        val request = next()
        assertEquals("7", request.headers["Last-Event-ID"])
        request.stream().send("id: 8\nevent: queued\ndata: {\"seq\":8}\n\n")
        assertEquals("8", session.statuses.value.lastEventId)
    }

    @Test
    fun theWaitOfARefusedRetryIsShown() = bubble {
        val session = open()
        nextStream().event("error")
        val retrying = scope.async { session.retry() }
        next().reply(429, """{"code":"wait_required","detail":"Wait."}""", "Retry-After" to "12")
        val problem = assertNotNull(retrying.await().problem)
        assertEquals(12.seconds, problem.retryAfter)
        assertEquals("Wait.", problem.detail)
        assertEquals("wait_required", session.statuses.value.problem?.code)
        assertEquals(12.seconds, session.statuses.value.retryAllowedIn())
    }

    @Test
    fun aDateInRetryAfterIsRelativeToTheAnswer() = bubble {
        val session = open()
        nextStream().event("error")
        val retrying = scope.async { session.retry() }
        next().reply(429, "{}", "Retry-After" to "Wed, 01 Jan 2031 00:00:42 GMT", "Date" to "Wed, 01 Jan 2031 00:00:00 GMT")
        assertEquals(42.seconds, retrying.await().problem?.retryAfter)
        val again = scope.async { session.retry() }
        next().reply(429, "{}", "Retry-After" to "soon", "Date" to "Wed, 01 Jan 2031 00:00:00 GMT")
        assertNull(assertNotNull(again.await().problem).retryAfter)
    }

    /** The tap counts also if the view that made it has gone. */
    @Test
    fun cancellingTheCallerDoesNotCancelTheRetry() = bubble {
        val session = open()
        nextStream().event("error")
        var thrown: Throwable? = null
        val caller = scope.launch {
            try {
                session.retry()
            } catch (e: CancellationException) {
                thrown = e
                throw e
            }
        }
        val request = next()
        caller.cancel()
        pass(1.seconds)
        assertIs<CancellationException>(thrown)
        assertFalse(request.isDropped)
        request.reply(202, "{}")
        assertEquals("GET", next().method)
        assertEquals(Phase.LOADING, session.statuses.value.phase)
    }

    @Test
    fun submitFollowsTheNewJob() = bubble {
        val session = open()
        nextStream().send("id: 7\nevent: completed\ndata: {\"seq\":7}\n\n")
        pass(1.minutes)
        val submitting = scope.async { session.submit(Submission("hei", replace = true)) }
        val post = next()
        assertTrue(assertNotNull(post.headers["Idempotency-Key"]).length == 32)
        assertEquals("/api/v1/sessions/abc-123/summary?replace=true", post.path)
        assertEquals("""{"input":{"text":"hei"}}""", post.body)
        post.reply(202, """{"job_id":"J","status":"queued"}""")
        val request = next()
        assertEquals(Answer.Ok(SubmittedJob("J", "queued")), submitting.await())
        assertNull(request.headers["Last-Event-ID"])
        request.stream().send("id: 3\nevent: processing\ndata: {\"seq\":3}\n\n")
        val status = session.statuses.value
        assertEquals(Phase.LOADING, status.phase)
        assertTrue(status.spinner)
        assertEquals(Outcome.PENDING, status.outcome)
        assertEquals("3", status.lastEventId)
    }

    /** An event without an id carries the one before it, but not one of the job before. */
    @Test
    fun aSubmissionStartsWithoutAPosition() = bubble {
        val session = open()
        nextStream().send("id: 7\nevent: completed\ndata: {\"seq\":7}\n\n")
        val submitting = scope.async { session.submit(Submission("hei")) }
        next().reply(202, """{"job_id":"J","status":"queued"}""")
        val stream = nextStream()
        assertIs<Answer.Ok<*>>(submitting.await())
        stream.event("processing")
        assertEquals("", session.statuses.value.lastEventId)
        stream.breakOff()
        assertNull(next().headers["Last-Event-ID"])
    }

    @Test
    fun aSubmissionOvertakesARetry() = bubble {
        val session = open()
        nextStream().event("error")
        val retrying = scope.async { session.retry() }
        val late = next()
        val submitting = scope.async { session.submit(Submission("hei")) }
        next().reply(202, "{}")
        nextStream().event("error")
        assertEquals(Answer.NotOffered, retrying.await())
        assertTrue(late.isDropped)
        assertIs<Answer.Ok<*>>(submitting.await())
        scope.async { session.retry() }
        assertEquals("/api/v1/sessions/abc-123/summary/retry", next().path)
        quiet(1.seconds)
        assertEquals(Connection.CLOSED, session.statuses.value.connection)
    }

    @Test
    fun aRefusedSubmissionChangesNothing() = bubble {
        val session = open()
        nextStream().event("processing")
        val before = session.statuses.value
        val submitting = scope.async { session.submit(Submission(messages = listOf(Turn("user", "a \"b\"")), language = "nb")) }
        val post = next()
        assertEquals("""{"input":{"messages":[{"role":"user","content":"a \"b\""}]},"language":"nb"}""", post.body)
        post.reply(409, """{"code":"job_running","job_id":"J","title":"Busy","request_id":"r","field":"input"}""")
        assertEquals(Answer.Refused(Problem(409, "job_running", "Busy", null, "r", "input", "J")), submitting.await())
        quiet(1.seconds)
        assertEquals(before, session.statuses.value)
    }

    @Test
    fun anAnswerThatIsNoJsonIsNone() = bubble {
        val asking = scope.async { client.document("abc-123") }
        next().reply(200, "<html>")
        assertIs<Answer.None>(asking.await())
    }

    @Test
    fun aDocumentIsReadAsFarAsItGoes() = bubble {
        val asking = scope.async { client.document("abc-123") }
        val request = next()
        assertEquals("/api/v1/sessions/abc-123/summary", request.path)
        request.reply(200, """{"version":3,"created_at":"2026-01-02T03:04:05.678Z","model":7,"content":{"text":"ø"}}""")
        val document = assertNotNull(asking.await().valueOrNull())
        assertEquals(3, document.version)
        assertEquals("2026-01-02T03:04:05.678Z", document.createdAt.toString())
        assertNull(document.model)
        assertEquals("""{"text":"ø"}""", document.content.toString())
    }

    @Test
    fun anotherWorkloadHasItsAddressAndItsText() = bubble {
        val session = client.forWorkload("guidance").open("abc-123", scope.backgroundScope)
        val request = next()
        assertEquals("/api/v1/sessions/abc-123/guidance/status", request.path)
        request.stream().event("error")
        assertEquals("ai_workload_guidance_error", session.statuses.value.messageKey)
    }

    @Test
    fun watchEndsWithTheJob() = bubble {
        for ((event, phase) in mapOf("completed" to Phase.DONE, "error" to Phase.ERROR)) {
            val watching = scope.async { client.watch("abc-123").toList() }
            val stream = nextStream()
            stream.event(event)
            assertEquals(phase, watching.await().last().phase)
            assertTrue(stream.isDropped)
        }
        val watching = scope.async { client.watch("abc-123").toList() }
        next().reply(403, "{}")
        assertEquals(403, watching.await().last().problem?.status)
        quiet(1.minutes)
    }

    @Test
    fun watchEndsWithItsCollector() = bubble {
        val watching = scope.launch { client.watch("abc-123").collect {} }
        val stream = nextStream()
        watching.cancel()
        watching.join()
        assertTrue(stream.isDropped)
        val first = scope.async { client.watch("abc-123").take(1).toList() + client.watch("abc-123").first() }
        assertEquals(2, first.await().size)
        pass(1.minutes)
    }

    @Test
    fun addressesThatCannotWorkAreRefused() = bubble {
        val http = HttpClient(MockEngine { respondOk() })
        for (url in listOf("", "api.test", "ftp://api.test", "https://", "http://a b", "https://a?b", "https://a#b")) {
            assertFailsWith<IllegalArgumentException>("\"$url\" is accepted") { TidingsClient(http, url) }
        }
        TidingsClient(http, "HTTPS://api.test/path")
    }
}
