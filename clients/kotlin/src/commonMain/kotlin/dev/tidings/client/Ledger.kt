package dev.tidings.client

import kotlin.time.Duration
import kotlin.time.Instant
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.doubleOrNull

/** What happened to a job: its attempts, and the calls to the model in each. A field the server does not know is null. */
public data class Ledger(public val jobId: String?, public val attempts: List<Attempt>, public val calls: List<Call>)

/** One run of the job by a worker, from 1. */
public data class Attempt(
    public val attempt: Int?,
    public val startedAt: Instant?,
    /** null while it runs. */
    public val endedAt: Instant?,
    public val duration: Duration?,
    /** What it led to. */
    public val status: String?,
    public val reason: String?,
    public val nextRetryAt: Instant?,
)

/** One request to the model inside an attempt, from 1 in each. */
public data class Call(
    public val attempt: Int?,
    public val call: Int?,
    /** Provider and model. */
    public val dependency: String?,
    public val startedAt: Instant?,
    public val duration: Duration?,
    public val providerStatus: Int?,
    /** Why it failed, by its name in the contract; null when it did not. */
    public val failure: String?,
    public val waitHint: Duration?,
    /** `done`, `again`, `queue` or `final`. */
    public val decision: String?,
    public val inputTokens: Long?,
    public val outputTokens: Long?,
    public val costUsd: Double?,
)

internal fun ledgerOf(o: JsonObject) = Ledger(
    jobId = o.text("job_id"),
    attempts = o.objects("attempts").map {
        Attempt(
            attempt = it.count("attempt"),
            startedAt = it.time("started_at"),
            endedAt = it.time("ended_at"),
            duration = it.duration("duration_ms"),
            status = it.text("status"),
            reason = it.text("reason"),
            nextRetryAt = it.time("next_retry_at"),
        )
    },
    calls = o.objects("calls").map {
        Call(
            attempt = it.count("attempt"),
            call = it.count("call"),
            dependency = it.text("dependency"),
            startedAt = it.time("started_at"),
            duration = it.duration("duration_ms"),
            providerStatus = it.count("provider_status"),
            failure = it.text("class"),
            waitHint = it.duration("wait_hint_ms"),
            decision = it.text("decision"),
            inputTokens = it.integer("input_tokens"),
            outputTokens = it.integer("output_tokens"),
            costUsd = (it["cost_usd"] as? JsonPrimitive)?.takeUnless(JsonPrimitive::isString)?.doubleOrNull,
        )
    },
)

/** The objects of a list. */
internal fun JsonObject.objects(key: String): List<JsonObject> = (this[key] as? JsonArray).orEmpty().filterIsInstance<JsonObject>()
