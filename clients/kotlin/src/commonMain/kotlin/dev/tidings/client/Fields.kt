package dev.tidings.client

import kotlin.time.Duration
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Instant
import kotlinx.serialization.SerializationException
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive

// JSON objects are read field by field, each as if absent when it has another type than expected:
// the server may be newer than the client. Generated serializers would fail as a whole instead.

private const val MAX_SAFE_INTEGER = (1L shl 53) - 1 // the largest integer every client can hold
private const val MAX_DEPTH = 256 // the library reads arrays by recursion
private val NOTHING = JsonObject(emptyMap())
private val NUMBER = Regex("-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][+-]?[0-9]+)?")

/** Reads text as one JSON object; anything else is an empty one. */
internal fun readObject(text: String): JsonObject = readObjectOrNull(text) ?: NOTHING

/** Reads text as one JSON object; null if it is anything else. */
internal fun readObjectOrNull(text: String): JsonObject? {
    if (!isPlain(text)) return null
    val element = try {
        Json.parseToJsonElement(text)
    } catch (_: SerializationException) {
        return null
    }
    return (element as? JsonObject)?.takeIf(::hasOnlyKnownWords)
}

/** Whether no string has a bare control character, which the library would take, and nothing is nested too deep for it. */
private fun isPlain(text: String): Boolean {
    var depth = 0
    var inString = false
    var at = 0
    while (at < text.length) {
        val c = text[at]
        when {
            inString && c == '\\' -> at++
            inString && c < ' ' -> return false
            c == '"' -> inString = !inString
            !inString && (c == '{' || c == '[') -> if (++depth > MAX_DEPTH) return false
            !inString && (c == '}' || c == ']') -> depth--
        }
        at++
    }
    return true
}

/** Whether everything without quotes is a number, true, false or null: the library takes any word. */
private fun hasOnlyKnownWords(element: JsonElement): Boolean = when (element) {
    is JsonObject -> element.values.all(::hasOnlyKnownWords)
    is JsonArray -> element.all(::hasOnlyKnownWords)
    is JsonPrimitive -> element.isString || element.content in setOf("true", "false", "null") || NUMBER.matches(element.content)
}

internal fun JsonObject.text(key: String): String? = (this[key] as? JsonPrimitive)?.takeIf { it.isString }?.content

/** A whole number in [range], written without fraction or exponent. */
internal fun JsonObject.integer(key: String, range: LongRange = 0..MAX_SAFE_INTEGER): Long? =
    (this[key] as? JsonPrimitive)?.takeUnless { it.isString }?.content?.toLongOrNull()?.takeIf { it in range }

/** A number of things. */
internal fun JsonObject.count(key: String): Int? = integer(key, 0L..Int.MAX_VALUE)?.toInt()

internal fun JsonObject.duration(key: String): Duration? = integer(key)?.milliseconds

/** True or false; nothing else counts. */
internal fun JsonObject.flag(key: String): Boolean? =
    (this[key] as? JsonPrimitive)?.takeUnless { it.isString }?.content?.toBooleanStrictOrNull()

/** A time of RFC 3339 with a zone. */
internal fun JsonObject.time(key: String): Instant? = text(key)?.let(Instant::parseOrNull)
