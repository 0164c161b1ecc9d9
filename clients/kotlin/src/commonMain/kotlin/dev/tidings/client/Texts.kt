package dev.tidings.client

import io.ktor.client.statement.HttpResponse
import io.ktor.http.HttpHeaders
import io.ktor.http.HttpMethod
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.serialization.json.JsonObject

/**
 * The server's texts in the client's language, with those an app cannot do without built in: they can
 * be shown before the first [load] and without a network. It may be used from any thread.
 */
public class Texts internal constructor(private val client: TidingsClient, language: String?) {
    private val builtInLanguage = language.orEmpty().lowercase().replace('_', '-').substringBefore('-')
        .let { if (it == "no" || it == "nn") "nb" else it }
        .takeIf { it in builtInTexts } ?: "en"
    private val fetched = MutableStateFlow<Fetched?>(null)

    private class Fetched(val language: String?, val texts: JsonObject, val etag: String)

    /**
     * The language of the texts: what the server chose, before the first [load] that of the built-in
     * ones.
     */
    public val language: String get() = fetched.value?.language ?: builtInLanguage

    /** Fetches the texts, or learns that those it has are still the newest. When it fails, those it has stay. */
    public suspend fun load(): Answer<Unit> {
        val headers = mapOf("Accept" to "application/json", HttpHeaders.IfNoneMatch to fetched.value?.etag.orEmpty())
        val answer = client.call(Request(HttpMethod.Get, "/api/v1/messages", headers)) { take(it) }
        return if (answer.problem?.status == 304) Answer.Ok(Unit) else answer
    }

    private suspend fun take(response: HttpResponse): Unit? {
        val body = bodyOf(response) ?: return null
        val texts = body["messages"] as? JsonObject ?: return null
        fetched.value = Fetched(body.text("language"), texts, response.headers[HttpHeaders.ETag].orEmpty())
        return Unit
    }

    /**
     * The text of a [key]: the server's, else the built-in one of the language, else the English one,
     * else the key itself.
     */
    public operator fun get(key: String): String =
        fetched.value?.texts?.text(key)?.ifEmpty { null }
            ?: builtInTexts[builtInLanguage]?.get(key)
            ?: builtInTexts["en"]?.get(key)
            ?: key
}
