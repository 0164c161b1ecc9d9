package dev.tidings.client

import kotlin.random.Random
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith

class ParserTest {
    /** However the network cuts a stream, it says the same. */
    @Test
    fun itDoesNotMatterHowAStreamIsCut() {
        val alphabet = "id: 1|event: x|data: \u20ac\ud83d\ude00|data|retry: 20|:|\r|\n|\r\n|\n\n|\u0000|\ufeff|\u2028| ".split("|").map { it.encodeToByteArray() } +
            byteArrayOf(0xE2.toByte(), 0x82.toByte()) + byteArrayOf(0xF0.toByte()) + byteArrayOf(0xEF.toByte(), 0xBB.toByte())
        repeat(500) { seed ->
            val random = Random(seed)
            val stream = List(random.nextInt(40)) { alphabet.random(random) }.fold(ByteArray(0), ByteArray::plus)
            val whole = parse(stream, stream.size + 1)
            for (size in 1..7) assertEquals(whole, parse(stream, size), "seed $seed in pieces of $size")
        }
    }

    private fun parse(stream: ByteArray, size: Int): List<Any?> {
        val got = mutableListOf<Any?>()
        val parser = SseParser(onRetry = { got += it }) { got += it }
        for (from in stream.indices step size) parser.feed(stream, from, minOf(from + size, stream.size))
        return got + parser.lastEventId + parser.retryMillis
    }

    @Test
    fun itStopsAtItsLimit() {
        for (input in listOf("data: 123456789012", "data: 12345678\ndata: 12345678\n")) {
            val parser = SseParser(limit = 16) {}
            assertFailsWith<StreamTooLongException> { parser.feed(input.encodeToByteArray()) }
            assertFailsWith<StreamTooLongException>("goes on") { parser.feed("\n".encodeToByteArray()) }
        }
    }
}
