package dev.tidings.client

import io.ktor.client.HttpClient
import io.ktor.client.engine.mock.MockEngine
import io.ktor.client.engine.mock.respond
import io.ktor.client.plugins.HttpRequestRetry
import io.ktor.client.plugins.HttpTimeout
import io.ktor.http.HttpStatusCode
import io.ktor.http.headersOf
import io.ktor.utils.io.ByteChannel
import io.ktor.utils.io.cancel
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertFalse
import kotlin.test.assertNotNull
import kotlin.test.assertNull
import kotlin.test.assertTrue
import kotlin.time.Duration.Companion.hours
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds
import kotlin.time.TestTimeSource
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.awaitCancellation
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.test.StandardTestDispatcher
import kotlinx.coroutines.test.TestResult
import kotlinx.coroutines.test.runTest
import kotlinx.coroutines.test.testTimeSource
import kotlinx.io.IOException

@OptIn(ExperimentalCoroutinesApi::class)
class ConnectionTest {
    @Test
    fun theWatchdogDropsASilentStream() = bubble {
        val session = open()
        val stream = nextStream()
        pass(44.seconds)
        stream.send(": heartbeat\n\n")
        pass(44.seconds)
        assertEquals(Connection.OPEN, session.statuses.value.connection, "a comment came 44 s ago")
        pass(1.seconds)
        assertEquals(Connection.RECONNECTING, session.statuses.value.connection, "nothing came for 45 s")
        assertTrue(stream.isDropped)
        next().reply(204)
    }

    @Test
    fun anAnswerHasToBeginWithinTenSeconds() = bubble {
        open()
        val start = now
        val first = next() // never answered
        next().reply(204)
        assertTrue(first.isDropped, "the first request goes on")
        assertBetween(11.seconds, 11250.milliseconds, now - start)
    }

    @Test
    fun theWatchdogCoversTheWaitForAToken(): TestResult {
        var asked = 0
        return bubble({ tokens = TokenSource { if (asked++ == 0) awaitCancellation() else "good" } }) {
            open()
            val start = now
            next().reply(204)
            assertBetween(46.seconds, 46250.milliseconds, now - start)
        }
    }

    @Test
    fun aCountdownWithoutNewsAsksOnANewConnection(): TestResult {
        val made = mutableListOf<String>()
        return bubble {
            val events = mapOf(
                "retrying" to """{"attempt":1,"retry_in_ms":30000}""",
                "queued" to """{"server_time":"2026-12-01T12:00:00.000Z","not_before":"2026-12-01T12:00:30.000Z"}""",
            )
            for ((event, data) in events) {
                val session = open()
                val stream = nextStream()
                stream.send("id: 7\nevent: $event\ndata: $data\n\n")
                assertEquals(30.seconds, session.statuses.value.retryIn())
                quiet(32999.milliseconds)
                pass(1.milliseconds)
                val request = next()
                assertEquals("7", request.headers["Last-Event-ID"])
                assertTrue(stream.isDropped)
                assertEquals(TextKeys.CHECKING, session.statuses.value.messageKey)
                request.stream()
                pass(1.milliseconds)
                assertTrue(session.statuses.value.messageKey != TextKeys.CHECKING, "although the stream is open")
                quiet(40.seconds) // once for each countdown: the watchdog has the rest
                session.close()
                made += event
            }
            assertEquals(events.keys.toList(), made)
        }
    }

    @Test
    fun aCountdownWithNewsAsksNothing() = bubble {
        val session = open()
        val stream = nextStream()
        stream.event("retrying", """{"attempt":1,"retry_in_ms":30000}""")
        pass(32.seconds)
        stream.event("processing")
        quiet(40.seconds)
        assertNull(session.statuses.value.retryIn())
    }

    /** An event says that the resume worked. */
    @Test
    fun plannedEndsDoNotGrowTheBackoff() = bubble {
        open()
        var request = next()
        repeat(5) {
            val stream = request.stream()
            stream.send("retry: 500\n")
            stream.event("resumed")
            stream.end()
            val start = now
            request = next()
            assertBetween(500.milliseconds, 625.milliseconds, now - start)
        }
    }

    /** A function that makes HTTP clients makes another when the connections of the last cannot be trusted. */
    @Test
    fun aDeadStreamAndForegroundTakeNewConnections() = runTest {
        var made = 0
        val answers = Channel<ByteChannel?>(Channel.UNLIMITED)
        val client = TidingsClient("https://api.test", {
            val number = ++made
            HttpClient(MockEngine) {
                engine {
                    dispatcher = StandardTestDispatcher(testScheduler)
                    addHandler {
                        assertEquals(made, number, "a request goes out on old connections")
                        val channel = ByteChannel()
                        answers.send(channel)
                        respond(channel, HttpStatusCode.OK, headersOf("Content-Type", "text/event-stream"))
                    }
                }
            }
        }) {
            dispatcher = StandardTestDispatcher(testScheduler)
            timeSource = testTimeSource
        }
        val session = client.open("abc-123", backgroundScope)
        answers.receive()
        assertEquals(1, made)
        session.foreground().join()
        answers.receive()!!.cancel(IOException("the connection broke"))
        assertEquals(2, made)
        val third = answers.receive()!!
        assertEquals(3, made)
        third.flushAndClose() // an orderly end says nothing against the connection
        answers.receive()
        assertEquals(3, made)
    }

    @Test
    fun backoffDoublesAndIsStretchedAtRandom() = bubble {
        open()
        next().reply(503)
        var isStretched = false
        for (delay in listOf(1, 2, 4, 8, 16, 30, 30).map { it.seconds }) {
            val start = now
            next().reply(503)
            val waited = now - start
            assertBetween(delay, delay * 5 / 4, waited)
            isStretched = isStretched || waited > delay
        }
        assertTrue(isStretched, "clients would come back all at once")
    }

    @Test
    fun backoffBeginsWithWhatTheServerAsksFor() = bubble {
        for (status in listOf(429, 503)) {
            for ((after, waits) in mapOf("10" to listOf(10, 20), "1" to listOf(1, 2), "0" to listOf(1, 2), "99999999999" to listOf(30, 30))) {
                val session = open()
                next().reply(status, "", "Retry-After" to after)
                for (wait in waits.map { it.seconds }) {
                    val start = now
                    next().reply(503)
                    assertBetween(wait, wait * 5 / 4, now - start)
                }
                session.close()
            }
        }
    }

    @Test
    fun backoffStartsOverAfterAnEvent() = bubble {
        open()
        next().reply(503)
        next().reply(503)
        val stream = nextStream()
        stream.event("processing")
        stream.breakOff()
        val start = now
        next().reply(204)
        assertBetween(1.seconds, 1250.milliseconds, now - start)
    }

    @Test
    fun theServerSetsThePause() = bubble {
        open()
        val stream = nextStream()
        stream.send("retry: 5000\n")
        stream.end()
        val start = now
        next().reply(204)
        assertBetween(5.seconds, 6250.milliseconds, now - start)
    }

    @Test
    fun idleAsksAgainAfterExactlyTwoSeconds() = bubble {
        open()
        val stream = nextStream()
        stream.event("idle")
        stream.end()
        val start = now
        next().reply(204)
        assertEquals(2.seconds, now - start)
    }

    @Test
    fun nothingIsAskedAfterCompleted() = nothingIsAskedAfter("completed")

    @Test
    fun nothingIsAskedAfterError() = nothingIsAskedAfter("error")

    private fun nothingIsAskedAfter(event: String) = bubble {
        val session = open()
        val stream = nextStream()
        stream.event(event)
        assertTrue(stream.isDropped, "the stream is still open")
        session.foreground()
        quiet(1.hours)
    }

    @Test
    fun nothingIsAskedAfterARefusal() = bubble {
        val session = open()
        next().reply(403, """{"code":"forbidden"}""")
        quiet(1.hours)
        val status = session.statuses.value
        assertEquals(Phase.ERROR, status.phase)
        assertEquals("forbidden", status.problem?.code)
    }

    @Test
    fun anOlderStreamIsNoLongerHeard() = bubble {
        val session = open()
        val old = nextStream()
        old.send("id: 1\nevent: processing\ndata: {}\n\n")
        // Both in one moment: what the old stream says has arrived when the new one is asked for.
        val changing = session.foreground()
        old.sendUnread("id: 2\nevent: completed\ndata: {}\n\n")
        changing.join()
        val request = next()
        assertEquals("1", request.headers["Last-Event-ID"])
        request.stream().send("id: 5\nevent: retrying\ndata: {}\n\n")
        val status = session.statuses.value
        assertEquals(Phase.RETRYING, status.phase)
        assertEquals("5", status.lastEventId)
    }

    /**
     * The device has slept, and no timer has rung. So the first event that it hears opens the stream that
     * was due, and what was read together with that event comes from an older one.
     */
    @Test
    fun theRestOfAnOlderStreamIsNotHeard(): TestResult {
        val clock = TestTimeSource()
        return bubble({ timeSource = clock }) {
            val session = open()
            val old = nextStream()
            old.event("idle")
            clock += 1.hours
            old.send("id: 1\nevent: processing\ndata: {}\n\nid: 2\nevent: completed\ndata: {}\n\n")
            assertEquals("1", session.statuses.value.lastEventId, "the older stream is heard")
            val request = next()
            assertEquals("1", request.headers["Last-Event-ID"])
            request.stream().send("id: 2\nevent: completed\ndata: {}\n\n")
            assertEquals(Phase.DONE, session.statuses.value.phase)
        }
    }

    /** Closed between two events that were read together. */
    @Test
    fun aClosedSessionHearsNothing(): TestResult {
        var session: StatusSession? = null
        return bubble({ trace = { if (it.retryAttempt == 1) session?.close() } }) {
            val opened = open().also { session = it }
            nextStream().send("event: retrying\ndata: {\"attempt\":1}\n\nevent: retrying\ndata: {\"attempt\":2}\n\n")
            assertEquals(1, opened.statuses.value.retryAttempt)
        }
    }

    /** What was read together with an error is still told, every time. */
    @Test
    fun aCompletedRightBehindAnErrorCounts() = bubble {
        repeat(20) {
            val session = open()
            nextStream().send("event: error\ndata: {}\n\nevent: completed\ndata: {}\n\n")
            assertEquals(Phase.DONE, session.statuses.value.phase)
        }
    }

    @Test
    fun foregroundLeavesOneStream() = bubble {
        val session = open()
        val streams = List(50) {
            nextStream().also { session.foreground().join() }
        }
        val last = nextStream()
        assertEquals(0, streams.count { !it.isDropped }, "streams are still open")
        assertFalse(last.isDropped)
        quiet(40.seconds)
    }

    @Test
    fun aLineWithoutEndEndsTheStream() = bubble {
        val session = open()
        val stream = nextStream()
        stream.send("data: " + "x".repeat(SseParser.DEFAULT_LIMIT - 100))
        assertEquals(Connection.OPEN, session.statuses.value.connection, "below the limit")
        stream.send("x".repeat(100))
        assertEquals(Connection.RECONNECTING, session.statuses.value.connection, "beyond the limit")
    }

    @Test
    fun withoutATokenItTriesAgain(): TestResult {
        var asked = 0
        return bubble({ tokens = TokenSource { if (asked++ == 0) error("no network") else "good" } }) {
            open()
            assertEquals("Bearer good", next().headers["Authorization"])
        }
    }

    @Test
    fun aTokenIsRefreshedOnce(): TestResult {
        val refreshes = mutableListOf<Boolean>()
        return bubble({ tokens = TokenSource { refresh -> refreshes += refresh; "t${refreshes.size}" } }) {
            val session = open()
            next().reply(401)
            val second = next()
            assertEquals("Bearer t2", second.headers["Authorization"])
            second.reply(401, """{"code":"unauthorized"}""")
            quiet(1.hours)
            assertEquals(listOf(false, true), refreshes)
            assertEquals(401, session.statuses.value.problem?.status)
        }
    }

    @Test
    fun closeLeavesNothingRunning() = bubble {
        val session = open()
        val stream = nextStream()
        stream.event("retrying", """{"attempt":1}""")
        val last = session.statuses.value
        session.close()
        pass(1.seconds)
        assertTrue(stream.isDropped, "the stream is still open")
        session.foreground().join()
        session.dismiss().join()
        assertEquals(Answer.NotOffered, session.retry())
        quiet(1.hours)
        assertEquals(last, session.statuses.value)
    }

    @Test
    fun theStreamIsAskedForAsTheServerExpects() = bubble({ language = "nb" }) {
        open()
        val request = next()
        assertEquals("GET", request.method)
        assertEquals("/api/v1/sessions/abc-123/summary/status", request.path)
        assertEquals("text/event-stream", request.headers["Accept"])
        assertEquals("identity", request.headers["Accept-Encoding"])
        assertEquals("nb", request.headers["Accept-Language"])
        assertNull(request.headers["Last-Event-ID"])
        assertNull(request.headers["Authorization"])
        assertNotNull(request.stream())
        quiet(44.seconds)
    }

    @Test
    fun anIdIsOnePartOfTheAddress() = bubble {
        client.open("a/b ?ü", scope.backgroundScope)
        assertEquals("/api/v1/sessions/a%2Fb%20%3F%C3%BC/summary/status", next().path)
    }

    @Test
    fun whatTheAppHasDoneToItsClientBreaksNothing() = bubble(
        setUp = {
            expectSuccess = true
            install(HttpTimeout) { requestTimeoutMillis = 1000 }
            install(HttpRequestRetry) { retryOnServerErrors(maxRetries = 5) }
        },
    ) {
        val session = open()
        next().reply(503)
        pass(1.milliseconds)
        assertEquals(Connection.RECONNECTING, session.statuses.value.connection)
        val start = now
        val stream = nextStream()
        assertBetween(900.milliseconds, 1250.milliseconds, now - start)
        repeat(30) {
            pass(30.seconds)
            stream.send(": heartbeat\n\n")
        }
        assertEquals(Connection.OPEN, session.statuses.value.connection)
        stream.end()
        next().reply(403, "{}")
        pass(1.milliseconds)
        assertEquals(403, session.statuses.value.problem?.status)
    }
}
