package dev.tidings.client

/**
 * Reads bytes as a browser does: each maximal part of a sequence that cannot be completed becomes
 * one U+FFFD. The platforms' own decoders differ here, and all clients have to show the same text.
 */
internal fun decodeUtf8(bytes: ByteArray, from: Int, to: Int): String {
    var at = from
    var plain = from // what is not yet decoded and known to be well-formed starts here
    var out: StringBuilder? = null
    while (at < to) {
        val length = sequence(bytes, at, to)
        if (length > 0) {
            at += length
            continue
        }
        out = (out ?: StringBuilder(to - from)).append(bytes.decodeToString(plain, at)).append('\uFFFD')
        at -= length
        plain = at
    }
    val rest = bytes.decodeToString(plain, to)
    return out?.append(rest)?.toString() ?: rest
}

/** The length of the character at [at]; negative, that of the broken part that stands there instead. */
private fun sequence(bytes: ByteArray, at: Int, to: Int): Int {
    val first = bytes[at].toInt() and 0xFF
    val length = when (first) {
        in 0x00..0x7F -> return 1
        in 0xC2..0xDF -> 2
        in 0xE0..0xEF -> 3
        in 0xF0..0xF4 -> 4
        else -> return -1
    }
    // The second byte has a narrower range where a wider one would allow overlong forms,
    // surrogates, or values beyond U+10FFFF.
    var low = when (first) { 0xE0 -> 0xA0; 0xF0 -> 0x90; else -> 0x80 }
    var high = when (first) { 0xED -> 0x9F; 0xF4 -> 0x8F; else -> 0xBF }
    for (n in 1..<length) {
        if (at + n == to || (bytes[at + n].toInt() and 0xFF) !in low..high) return -n
        low = 0x80
        high = 0xBF
    }
    return length
}
