package dev.tidings.client

/** One event as the stream carried it, before anybody has looked at what it means. */
public data class Message(
    /** The last event id. It sticks: an event without one carries the one before. */
    public val id: String,
    /** The type, `message` when the stream named none. */
    public val event: String,
    /** The data lines, joined with LF. */
    public val data: String,
)

/** A line or a block of the stream holds more than its parser's limit. The stream is of no use after it. */
public class StreamTooLongException internal constructor(limit: Int) :
    Exception("a line or block of the stream holds more than $limit bytes")

/**
 * Turns the bytes of one event stream into messages. It does no I/O, keeps no more than one line and
 * one block, and looks at each byte once. It hands a message out with the byte that ends it: it never
 * waits for the next one to tell a CR from a CR LF.
 *
 * A parser serves one stream. The stream after it gets a new one, made with the [lastEventId] of this one.
 *
 * @param lastEventId what the stream was asked for with, empty for the first.
 * @param limit how many bytes one line, and the data of one block, may hold.
 * @param onRetry gets the milliseconds of each valid `retry` line, inside [feed].
 * @param onMessage gets each event, inside [feed].
 */
public class SseParser(
    lastEventId: String = "",
    private val limit: Int = DEFAULT_LIMIT,
    private val onRetry: (millis: Int) -> Unit = {},
    private val onMessage: (Message) -> Unit,
) {
    /**
     * The id to resume after. It moves at the end of a block, even of one that carried no event, so
     * what the end of the stream cut off does not count.
     */
    public var lastEventId: String = lastEventId
        private set

    /** The server's newest wish for the time between two connections, in milliseconds; null while it has none. */
    public var retryMillis: Int? = null
        private set

    private var failure: StreamTooLongException? = null
    private var mark = 0 // how many bytes of a byte order mark have been seen; -1 once past the start
    private var afterCr = false // an LF that comes now belongs to the CR before it
    private val line = Bytes()
    private val data = StringBuilder()
    private var dataBytes = 0
    private var hasData = false
    private var event = ""
    private var blockId = lastEventId // counts from the end of its block on

    /**
     * Reads the bytes of [chunk] from [from] until [to], however the network has cut them.
     *
     * @throws StreamTooLongException beyond the limit, and from then on.
     */
    public fun feed(chunk: ByteArray, from: Int = 0, to: Int = chunk.size) {
        failure?.let { throw it }
        var at = skipMark(chunk, from, to)
        while (at < to) {
            if (afterCr) {
                afterCr = false
                if (chunk[at] == LF) {
                    at++
                    continue
                }
            }
            val end = lineEnd(chunk, at, to)
            if (line.size + end - at > limit) fail()
            if (end == to) {
                line.append(chunk, at, to)
                return
            }
            afterCr = chunk[end] == CR
            if (line.size == 0) {
                take(chunk, at, end)
            } else {
                line.append(chunk, at, end)
                take(line.array, 0, line.size)
                line.clear()
            }
            at = end + 1
        }
    }

    /** Drops the mark that may open the stream, in one chunk or in three. Bytes that only looked like one belong to their line. */
    private fun skipMark(chunk: ByteArray, from: Int, to: Int): Int {
        var at = from
        while (mark >= 0 && at < to) {
            if (chunk[at] != BYTE_ORDER_MARK[mark]) {
                line.append(BYTE_ORDER_MARK, 0, mark)
                mark = -1
                break
            }
            at++
            mark++
            if (mark == BYTE_ORDER_MARK.size) mark = -1
        }
        return at
    }

    private fun take(bytes: ByteArray, from: Int, to: Int) {
        if (from == to) {
            endBlock()
            return
        }
        var colon = from
        while (colon < to && bytes[colon] != COLON) colon++
        var value = minOf(colon + 1, to)
        if (value < to && bytes[value] == SPACE) value++
        when (decodeUtf8(bytes, from, colon)) { // "" is a comment
            "data" -> {
                dataBytes += to - value + 1
                if (dataBytes > limit) fail()
                data.append(decodeUtf8(bytes, value, to)).append('\n')
                hasData = true
            }
            "event" -> event = decodeUtf8(bytes, value, to)
            "id" -> if ((value..<to).none { bytes[it] == NUL }) blockId = decodeUtf8(bytes, value, to)
            "retry" -> digits(bytes, value, to)?.let {
                retryMillis = it
                onRetry(it)
            }
        }
    }

    private fun endBlock() {
        lastEventId = blockId
        val message = if (hasData) Message(lastEventId, event.ifEmpty { "message" }, data.substring(0, data.length - 1)) else null
        data.clear()
        dataBytes = 0
        hasData = false
        event = ""
        message?.let(onMessage)
    }

    private fun fail(): Nothing {
        line.clear()
        data.clear()
        throw StreamTooLongException(limit).also { failure = it }
    }

    public companion object {
        /** How many bytes a line, and the data of a block, may hold unless a parser is told otherwise: 1 MiB. */
        public const val DEFAULT_LIMIT: Int = 1 shl 20

        private const val LF = '\n'.code.toByte()
        private const val CR = '\r'.code.toByte()
        private const val COLON = ':'.code.toByte()
        private const val SPACE = ' '.code.toByte()
        private const val NUL: Byte = 0
        private val BYTE_ORDER_MARK = byteArrayOf(0xEF.toByte(), 0xBB.toByte(), 0xBF.toByte())

        /** The index of the first CR or LF, or [to]. */
        private fun lineEnd(bytes: ByteArray, from: Int, to: Int): Int {
            var at = from
            while (at < to && bytes[at] != LF && bytes[at] != CR) at++
            return at
        }

        /** A number of ASCII digits and nothing else, held at the largest Int. */
        private fun digits(bytes: ByteArray, from: Int, to: Int): Int? {
            if (from == to) return null
            var number = 0L
            for (at in from..<to) {
                val digit = bytes[at] - '0'.code
                if (digit !in 0..9) return null
                number = minOf(number * 10 + digit, Int.MAX_VALUE.toLong())
            }
            return number.toInt()
        }
    }
}

/** The part of a line that has come so far. */
private class Bytes {
    var array = ByteArray(256)
        private set
    var size = 0
        private set

    fun append(from: ByteArray, start: Int, end: Int) {
        val needed = size + end - start
        if (needed > array.size) array = array.copyOf(maxOf(needed, array.size * 2))
        from.copyInto(array, size, start, end)
        size = needed
    }

    fun clear() {
        size = 0
    }
}
