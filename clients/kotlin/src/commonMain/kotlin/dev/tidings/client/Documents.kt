package dev.tidings.client

import kotlin.time.Instant
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.add
import kotlinx.serialization.json.addJsonObject
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put
import kotlinx.serialization.json.putJsonArray
import kotlinx.serialization.json.putJsonObject

/** One contribution to a conversation: who spoke, such as `user`, and what was said. */
public data class Turn(public val role: String, public val content: String) {
    // What somebody has said is for no log.
    override fun toString(): String = "Turn($role)"
}

/** What a document is to be made from, [text] or [messages], and how. The server refuses both and neither. */
public data class Submission(
    public val text: String? = null,
    public val messages: List<Turn> = emptyList(),
    /** The language of the document; null leaves it to the server. */
    public val language: String? = null,
    /** Cancels a live job that was submitted with other input. */
    public val replace: Boolean = false,
    /**
     * Makes it safe to send the same submission again after a lost answer; null lets the client choose
     * a new one.
     */
    public val idempotencyKey: String? = null,
    /** Scripts the local model of a server in dev mode, one step per call. */
    public val simulate: List<String> = emptyList(),
) {
    override fun toString(): String = "Submission(language=$language, replace=$replace)"

    internal fun toJson(): String = buildJsonObject {
        putJsonObject("input") {
            text?.let { put("text", it) }
            if (messages.isNotEmpty()) putJsonArray("messages") {
                for (turn in messages) addJsonObject {
                    put("role", turn.role)
                    put("content", turn.content)
                }
            }
        }
        language?.let { put("language", it) }
        if (simulate.isNotEmpty()) putJsonArray("simulate") { simulate.forEach { add(it) } }
    }.toString()
}

/** The job that an accepted submission has started or found, and the name of its status. */
public data class SubmittedJob(public val id: String?, public val status: String?)

/** A finished version of what a workload makes. */
public data class Document(
    /** From 1, growing with each document of the session. */
    public val version: Long?,
    public val createdAt: Instant?,
    /** Which model made it. */
    public val model: String?,
    /** What the model counted, such as tokens. */
    public val usage: JsonElement,
    /** Its form depends on the workload. */
    public val content: JsonElement,
) {
    override fun toString(): String = "Document(version=$version, createdAt=$createdAt)"
}

internal fun jobOf(fields: JsonObject) = SubmittedJob(fields.text("job_id"), fields.text("status"))

internal fun documentOf(fields: JsonObject) = Document(
    version = fields.integer("version"),
    createdAt = fields.time("created_at"),
    model = fields.text("model"),
    usage = fields["usage"] ?: JsonNull,
    content = fields["content"] ?: JsonNull,
)
