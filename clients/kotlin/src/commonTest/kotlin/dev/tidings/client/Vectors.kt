package dev.tidings.client

import kotlin.io.encoding.Base64
import kotlin.test.assertEquals
import kotlin.test.fail
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.int
import kotlinx.serialization.json.intOrNull
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import kotlinx.serialization.json.long

/** One case of the vectors that all clients share. */
internal class VectorCase(val name: String, val check: () -> Unit)

/** The cases of one format in the vectors' files, given as texts by name. None at all is a failure, and so is an unknown version. */
internal fun vectorCases(format: String, files: Map<String, String>): List<VectorCase> {
    val cases = files.flatMap { (name, text) ->
        val file = Json.parseToJsonElement(text).jsonObject
        if (file.string("format") != format) return@flatMap emptyList()
        if (file["version"] != JsonPrimitive(1)) fail("$name: version ${file["version"]} is not known here")
        file.list("cases").map { case ->
            VectorCase(case.string("name")) { if (format == "sse-parse") checkParse(case) else checkMachine(file["initial"]!!.jsonObject, case) }
        }
    }
    if (cases.isEmpty()) fail("no case of format $format among ${files.keys}")
    return cases
}

private fun JsonObject.string(key: String) = getValue(key).jsonPrimitive.content
private fun JsonObject.list(key: String): List<JsonObject> = getValue(key).jsonArray.map { it.jsonObject }

private fun checkParse(case: JsonObject) {
    val chunks = case.list("chunks").map { chunk ->
        chunk["b64"]?.let { Base64.decode(it.jsonPrimitive.content) }
            ?: chunk.string("utf8").repeat(chunk["repeat"]?.jsonPrimitive?.int ?: 1).encodeToByteArray()
    }
    val joined = chunks.fold(ByteArray(0), ByteArray::plus)
    checkParse("as they are", case, chunks, case["dispatched_after_chunk"]?.jsonArray?.map { it.jsonPrimitive.int })
    checkParse("joined", case, listOf(joined))
    checkParse("byte by byte", case, joined.map { byteArrayOf(it) })
}

private fun checkParse(how: String, case: JsonObject, chunks: List<ByteArray>, dispatched: List<Int>? = null) {
    val got = mutableListOf<Message>()
    val parser = SseParser(case["initial_last_event_id"]?.jsonPrimitive?.content ?: "") { got += it }
    chunks.forEachIndexed { i, chunk ->
        parser.feed(chunk)
        if (dispatched != null) assertEquals(dispatched[i], got.size, "$how: events after chunk $i")
    }
    assertEquals(case.list("expect").map { Message(it.string("id"), it.string("event"), whole(it.getValue("data"))) }, got, how)
    assertEquals(case.string("last_event_id"), parser.lastEventId, "$how: last event id")
    assertEquals(case.getValue("retry").jsonPrimitive.intOrNull, parser.retryMillis, "$how: retry")
}

/** A string, or parts of which some repeat. */
private fun whole(text: JsonElement): String = when (text) {
    is JsonPrimitive -> text.content
    is JsonArray -> error("not a text: $text")
    is JsonObject -> text.getValue("parts").jsonArray.joinToString("") {
        if (it is JsonObject) it.string("repeat").repeat(it.getValue("count").jsonPrimitive.int) else whole(it)
    }
}

private fun checkMachine(initial: JsonObject, case: JsonObject) {
    var machine = Machine(case.string("session_id"))
    assertEquals(initial.getValue("expect"), written(machine.state), "at first")
    assertEquals(initial.getValue("effects"), written(listOf(Effect.SUBSCRIBE)), "effects at first")
    case.list("steps").forEachIndexed { i, step ->
        val input = step.getValue("input").jsonObject
        val (next, effects) = machine.take(input.getValue("at_ms").jsonPrimitive.long, inputOf(input))
        assertEquals(step.getValue("expect"), written(next.state), "step $i: state")
        assertEquals(step.getValue("effects"), written(effects), "step $i: effects")
        machine = next
    }
}

private fun inputOf(input: JsonObject): Input = when (val kind = input.string("kind")) {
    "open" -> Input.Open
    "event" -> Input.Event(input.string("event"), input.string("data"), input["id"]?.jsonPrimitive?.content)
    "retry_hint" -> Input.RetryHint(input.getValue("ms").jsonPrimitive.int)
    "disconnect" -> Input.Disconnect(input["status"]?.jsonPrimitive?.intOrNull)
    "tick" -> Input.Tick
    "foreground" -> Input.Foreground
    "user_dismiss" -> Input.UserDismiss
    "user_retry" -> Input.UserRetry
    "retry_accepted" -> Input.RetryAccepted
    "retry_failed" -> Input.RetryFailed
    else -> fail("input $kind is not known here")
}

private fun written(state: State) = JsonObject(
    mapOf(
        "phase" to written(state.phase),
        "spinner" to JsonPrimitive(state.spinner),
        "message_key" to (state.messageKey?.let(::JsonPrimitive) ?: JsonNull),
        "retry_attempt" to (state.retryAttempt?.let(::JsonPrimitive) ?: JsonNull),
        "can_retry" to JsonPrimitive(state.canRetry),
        "can_dismiss" to JsonPrimitive(state.canDismiss),
        "connection" to written(state.connection),
        "resubscribe_at_ms" to (state.resubscribeAt?.let(::JsonPrimitive) ?: JsonNull),
        "last_event_id" to JsonPrimitive(state.lastEventId),
        "outcome" to written(state.outcome),
    ),
)

private fun written(effects: List<Effect>) = JsonArray(effects.map(::written))

/** A name of an enum as the files write it. */
internal fun written(value: Enum<*>) = JsonPrimitive(value.name.lowercase())
