package dev.tidings.client

import io.ktor.client.HttpClient
import io.ktor.client.plugins.HttpTimeoutConfig.Companion.INFINITE_TIMEOUT_MS
import io.ktor.client.plugins.expectSuccess
import io.ktor.client.plugins.retry
import io.ktor.client.plugins.timeout
import io.ktor.client.request.prepareRequest
import io.ktor.client.request.setBody
import io.ktor.client.request.url
import io.ktor.client.statement.HttpResponse
import io.ktor.client.statement.bodyAsChannel
import io.ktor.http.ContentType
import io.ktor.http.HttpHeaders
import io.ktor.http.HttpMethod
import io.ktor.http.HttpStatusCode
import io.ktor.http.content.TextContent
import io.ktor.http.fromHttpToGmtDate
import io.ktor.http.isSuccess
import io.ktor.utils.io.readRemaining
import kotlin.time.Duration
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.delay
import kotlinx.coroutines.ensureActive
import kotlinx.coroutines.launch
import kotlinx.coroutines.withTimeoutOrNull
import kotlinx.io.IOException
import kotlinx.io.readByteArray
import kotlinx.serialization.json.JsonObject

/** Gives the bearer token for a request. It may throw: the request then counts as one without an answer. */
public fun interface TokenSource {
    /**
     * The token; null for none. With [refresh] the server has just refused the last one: get a new
     * one. It may be called several times at once.
     */
    public suspend fun token(refresh: Boolean): String?
}

private const val MAX_BODY = 8L shl 20 // of any answer that is not a stream
private const val MAX_PROBLEM = 64L shl 10

/** What differs between requests. Headers without a value are not sent. */
internal class Request(
    val method: HttpMethod,
    val path: String,
    val headers: Map<String, String> = mapOf(HttpHeaders.Accept to "application/json"),
    val json: String? = null,
    /** How long the answer may take to begin; null for no limit but the caller's. */
    val begin: Duration? = null,
    /** null for the newest. */
    val via: HttpClient? = null,
)

/** Sends requests with the client's token and language. */
internal class Http(
    val connections: Connections,
    baseUrl: String,
    private val language: String?,
    private val tokens: TokenSource?,
    private val log: (String) -> Unit,
) {
    private val base = baseUrl.trimEnd('/')

    /**
     * Sends a request and lets [read] have the answer while it is open. A 401 is answered once, with
     * a fresh token; the second one is the answer.
     */
    suspend fun <T> exchange(request: Request, read: suspend (HttpResponse) -> T): T {
        val first = send(request, refresh = false) { response ->
            if (response.status == HttpStatusCode.Unauthorized && tokens != null) null else Taken(read(response))
        }
        if (first != null) return first.value
        log("token refused, asking for a new one: ${request.path}")
        return send(request, refresh = true, read)
    }

    private class Taken<T>(val value: T)

    private suspend fun <T> send(request: Request, refresh: Boolean, read: suspend (HttpResponse) -> T): T {
        val token = tokens?.token(refresh)
        val statement = (request.via ?: connections.newest).prepareRequest {
            method = request.method
            url(base + request.path)
            for ((name, value) in request.headers) if (value.isNotEmpty()) headers[name] = value
            language?.let { headers[HttpHeaders.AcceptLanguage] = it }
            if (!token.isNullOrEmpty()) headers[HttpHeaders.Authorization] = "Bearer $token"
            request.json?.let { setBody(TextContent(it, ContentType.Application.Json)) }
            // The app's client may serve other requests, too; what would break these is put right here.
            expectSuccess = false
            retry { noRetry() }
            timeout {
                requestTimeoutMillis = INFINITE_TIMEOUT_MS // it would cut every stream
                socketTimeoutMillis = SOCKET_TIMEOUT.inWholeMilliseconds
            }
        }
        return coroutineScope {
            val late = request.begin?.let {
                launch {
                    delay(it)
                    throw IOException("the answer has not begun within $it")
                }
            }
            statement.execute { response ->
                late?.cancel()
                read(response)
            }
        }
    }

    /** Sends a request and reads its answer if that is 2xx. [read] returns null if it cannot. */
    suspend fun <T : Any> call(request: Request, limit: Duration, read: suspend (HttpResponse) -> T?): Answer<T> =
        // A token that never comes must not hold the user up either: the limit covers all of it.
        try {
            withTimeoutOrNull(limit) {
                exchange(request) { response ->
                    when {
                        !response.status.isSuccess() -> Answer.Refused(problemOf(response))
                        else -> read(response)?.let { Answer.Ok(it) }
                            ?: Answer.None(IOException("the answer to ${request.method.value} ${request.path} is not readable"))
                    }
                }
            } ?: Answer.None(IOException("no answer within $limit"))
        } catch (e: Throwable) { // some engines throw no Exception, and some cancel only the request
            currentCoroutineContext().ensureActive()
            Answer.None(e)
        }
}

// Above the watchdog, which decides; this one only frees a socket that nobody closes.
private val SOCKET_TIMEOUT = 60.seconds

/** The media type of an answer, without parameters. */
internal fun mediaType(response: HttpResponse): String =
    response.headers[HttpHeaders.ContentType].orEmpty().substringBefore(';').trim().lowercase()

/** Reads the body as one JSON object; null if it is none. */
internal suspend fun bodyOf(response: HttpResponse): JsonObject? = readObjectOrNull(text(response, MAX_BODY))

/** Reads an answer as a problem document, as far as it is one. Another body is left alone: it may have no end. */
internal suspend fun problemOf(response: HttpResponse, status: Int = response.status.value): Problem {
    val fields = if (mediaType(response) == "application/problem+json") readObject(text(response, MAX_PROBLEM)) else JsonObject(emptyMap())
    return Problem(
        status = status,
        code = fields.text("code"),
        title = fields.text("title"),
        detail = fields.text("detail"),
        requestId = fields.text("request_id"),
        field = fields.text("field"),
        jobId = fields.text("job_id"),
        retryAfter = retryAfter(response),
    )
}

private suspend fun text(response: HttpResponse, limit: Long): String {
    val bytes = response.bodyAsChannel().readRemaining(limit).readByteArray()
    return decodeUtf8(bytes, 0, bytes.size)
}

/** Reads Retry-After in both of its forms; a date relative to the answer's own, so a wrong clock here does not matter. */
private fun retryAfter(response: HttpResponse): Duration? {
    val value = response.headers[HttpHeaders.RetryAfter] ?: return null
    if (value.isNotEmpty() && value.all { it in '0'..'9' }) return (value.toIntOrNull() ?: Int.MAX_VALUE).seconds
    val now = date(response.headers[HttpHeaders.Date]) ?: return null
    return date(value)?.let { maxOf(it - now, 0L).milliseconds }
}

private fun date(value: String?): Long? = try {
    value?.fromHttpToGmtDate()?.timestamp
} catch (_: IllegalStateException) { // what Ktor throws for anything else
    null
} catch (_: IllegalArgumentException) {
    null
}
