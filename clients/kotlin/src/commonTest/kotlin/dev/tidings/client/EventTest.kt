package dev.tidings.client

import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertIs
import kotlin.test.assertNull
import kotlin.test.assertTrue
import kotlin.time.Duration.Companion.seconds
import kotlin.time.Instant

class EventTest {
    @Test
    fun s1_34_allSixEventsHaveTheirModel() {
        val data = """{"session_id":"a","workload":"summary","job_id":"J","seq":12,"at":"2026-04-07T12:01:00.000Z","attempt":1,
            "max_attempts":4,"server_time":"2026-04-07T12:01:01.000Z","deadline_at":"2026-04-07T13:00:00.000Z","not_before":"2026-04-07T12:02:00.000Z",
            "call":2,"max_calls":3,"next_call":3,"layer":"queue","next_attempt":2,"next_retry_at":"2026-04-07T12:01:30.000Z","retry_in_ms":29000,
            "reason":"overloaded","message":"Retrying in 30s (attempt 2/4)…","user_message_key":"ai_service_busy_retrying","user_message":"Busy",
            "outcome":"failed","version":3,"document_url":"/d","message_key":"k","can_retry":false,"retry_available_at":"2026-04-07T12:05:00.000Z",
            "stays_open":true,"reset":true,"from_the_future":[1]}"""
        val names = listOf("queued", "processing", "retrying", "completed", "error", "idle")
        for (name in names) {
            val event = checkNotNull(StatusEvent.of(name, data)) { name }
            assertEquals(name, event.name)
            assertEquals(listOf<Any?>("J", 12L, 1, 4, "overloaded", "Retrying in 30s (attempt 2/4)…", true), event.run { listOf(jobId, seq, attempt, maxAttempts, reason, message, isReset) })
            assertEquals(listOf("12:01", "12:01:01", "13:00").map(::at), event.run { listOf(at, serverTime, deadlineAt) })
            assertTrue("from_the_future" in event.fields)
            when (event) {
                is StatusEvent.Queued -> assertEquals(at("12:02"), event.notBefore)
                is StatusEvent.Processing -> assertEquals(listOf<Int?>(2, 3), listOf(event.call, event.maxCalls))
                is StatusEvent.Retrying -> assertEquals(
                    listOf<Any?>("queue", 2, 2, 3, 3, at("12:01:30"), 29.seconds, "ai_service_busy_retrying", "Busy"),
                    event.run { listOf(layer, nextAttempt, call, nextCall, maxCalls, nextRetryAt, retryIn, userMessageKey, userMessage) },
                )
                is StatusEvent.Completed -> assertEquals(listOf<Any?>("failed", 3L, "/d"), event.run { listOf(outcome, version, documentUrl) })
                is StatusEvent.Failed -> assertEquals(
                    listOf<Any?>("failed", "k", false, at("12:05")),
                    event.run { listOf(outcome, messageKey, canRetry, retryAvailableAt) },
                )
                is StatusEvent.Idle -> assertTrue(event.staysOpen)
            }
        }
        assertEquals(names.size, names.map { StatusEvent.of(it, "{}")!!::class }.toSet().size)
        assertNull(StatusEvent.of("message", data))
    }

    private fun at(time: String) = Instant.parse("2026-04-07T${time.padEnd(8, ':').replace("::", ":00").take(8)}Z")

    @Test
    fun whatHasAnotherTypeIsAbsent() {
        val event = StatusEvent.of("retrying", """{"job_id":1,"seq":"2","attempt":true,"at":"noon","message":null,"reset":"true","retry_in_ms":-1,"call":[3],"layer":{}}""")
        assertIs<StatusEvent.Retrying>(event)
        assertEquals(List(7) { null }, event.run { listOf(jobId, seq, attempt, at, message, retryIn, call) })
        assertNull(event.layer)
        assertEquals(false, event.isReset)
    }

    /** What other clients' JSON libraries refuse is refused here, too: they all have to show the same. */
    @Test
    fun onlyStrictJsonIsRead() {
        val good = listOf("""{"seq":1}""", " {\"seq\" : 1 }\r\n", """{"seq":1,"a":[-0.5e+3,true,null,{"\u0041\/\"":"\\"}]}""", """{"a":"}{][","seq":1}""")
        for (text in good) assertEquals(1, readObject(text).integer("seq"), text)
        val bad = listOf(
            "", "null", "[1]", "1", """{"seq":1""", """{"seq":1}}""", """{"seq":1} x""", """{"seq":1,}""", """{seq:1}""", """{'seq':1}""",
            """{"seq":1,"a":yes}""", """{"seq":1,"a":01}""", """{"seq":1,"a":+1}""", """{"seq":1,"a":.5}""", """{"seq":1,"a":1.}""", """{"seq":1,"a":NaN}""",
            "{\"seq\":1,\"a\":\"\n\"}", "{\"seq\":1,\"a\":\"\t\"}", """{"seq":1,"a":"\x"}""", """{"seq":1,"a":[tru]}""", """{"seq":1 /* */}""", "\uFEFF{\"seq\":1}",
            """{"seq":1,"a":${"[".repeat(100_000)}${"]".repeat(100_000)}}""", """{"seq":1,"a":}""", """{"seq":1,"a"}""", """{"seq":1,,"a":2}""", "{\"seq\":1,\u00a0\"a\":2}",
        )
        for (text in bad) assertNull(readObjectOrNull(text), text.take(40))
    }
}
