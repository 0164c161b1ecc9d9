package dev.tidings.client

import io.ktor.client.HttpClient
import io.ktor.client.engine.cio.CIO
import io.ktor.client.engine.java.Java
import java.net.URI
import java.net.http.HttpRequest
import java.net.http.HttpResponse
import kotlin.test.assertEquals
import kotlin.test.assertTrue
import kotlin.test.fail
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.flow.map
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withTimeoutOrNull
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive
import kotlinx.serialization.json.boolean
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import kotlinx.serialization.json.long
import okhttp3.Protocol
import org.junit.jupiter.api.AfterAll
import org.junit.jupiter.api.BeforeAll
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.TestFactory
import org.junit.jupiter.api.parallel.Execution
import org.junit.jupiter.api.parallel.ExecutionMode

/**
 * Goes through every case of the contract server, with each of the engines: the server checks what the
 * client sends and what it makes of the answers.
 */
@Execution(ExecutionMode.CONCURRENT)
class ContractTest {
    @TestFactory
    fun cio() = cases("") { HttpClient(CIO) }

    @TestFactory
    fun okHttp() = cases("?http2") { isHttp2 ->
        okHttp { if (isHttp2) protocols(listOf(Protocol.H2_PRIOR_KNOWLEDGE)) }()
    }

    @TestFactory
    fun java() = cases("") { HttpClient(Java) }

    private fun cases(query: String, newHttpClient: (isHttp2: Boolean) -> HttpClient): List<DynamicTest> {
        val names = Json.parseToJsonElement(exchange("GET", "$address/cases$query")).jsonArray.map { it.jsonPrimitive.content }
        assertTrue(names.isNotEmpty(), "the contract server has no cases")
        return names.map { name ->
            DynamicTest.dynamicTest(name) {
                val made = mutableListOf<HttpClient>()
                try {
                    runBlocking { drive(name) { isHttp2 -> newHttpClient(isHttp2).also { made += it } } }
                } finally {
                    made.forEach(HttpClient::close)
                }
            }
        }
    }

    private suspend fun CoroutineScope.drive(name: String, newHttpClient: (isHttp2: Boolean) -> HttpClient) {
        val run = Json.parseToJsonElement(exchange("POST", "$address/runs", JsonObject(mapOf("case" to JsonPrimitive(name))).toString())).jsonObject
        val baseUrl = run.getValue("base_url").jsonPrimitive.content
        val settings = run.getValue("client").jsonObject
        val statuses = Channel<Status>(256) // room for every status of a case: the trace must not wait
        val isHttp2 = settings["http2"]?.jsonPrimitive?.boolean == true
        val client = TidingsClient(baseUrl, { newHttpClient(isHttp2) }) {
            workload = settings.getValue("workload").jsonPrimitive.content
            language = settings["language"]?.jsonPrimitive?.content
            watchdog = settings.getValue("watchdog_ms").jsonPrimitive.long.milliseconds
            tokens = settings["tokens"]?.jsonArray?.map { it.jsonPrimitive.content }?.let(::oneAfterTheOther)
            trace = { statuses.trySend(it).getOrThrow() }
        }
        settings["sessions"]?.let { names -> return list(client, run, baseUrl, names.jsonArray.map { it.jsonPrimitive.content }) }
        client.open(settings.getValue("session_id").jsonPrimitive.content, this).use { session ->
            val report = Report(statuses)
            val texts = client.texts()
            for (action in run.getValue("actions").jsonArray.map { it.jsonObject }) {
                report.await(action.getValue("when").jsonObject)
                report.result(session, texts, action.getValue("do").jsonPrimitive.content, action["text"]?.jsonPrimitive?.content)
                exchange("POST", "$baseUrl/did")
                report.settle()
            }
            report.await(run.getValue("until").jsonObject)
            session.close()
            exchange("POST", "$baseUrl/report", report.lines.joinToString("\n"))
        }
    }

    /** Follows the sessions of a case as a list. */
    private suspend fun CoroutineScope.list(client: TidingsClient, run: JsonObject, baseUrl: String, names: List<String>) {
        client.openAll(names, this).use { list ->
            suspend fun await(wanted: JsonElement): List<JsonObject> = withTimeoutOrNull(40.seconds) {
                list.statuses.map { statuses -> names.map { JsonObject(Report.written(statuses.getValue(it)) + ("session" to JsonPrimitive(it))) } }
                    .first { lines -> lines.any { line -> wanted.jsonObject.all { (key, value) -> line[key] == value } } }
            } ?: fail("no status matches $wanted; the last ones are ${list.statuses.value}")
            for (action in run.getValue("actions").jsonArray.map { it.jsonObject }) {
                await(action.getValue("when"))
                assertEquals("nothing", action.getValue("do").jsonPrimitive.content, "of a list")
                exchange("POST", "$baseUrl/did")
            }
            exchange("POST", "$baseUrl/report", await(run.getValue("until")).joinToString("\n"))
        }
    }

    private fun oneAfterTheOther(tokens: List<String>): TokenSource {
        val left = ArrayDeque(tokens)
        return TokenSource { refresh ->
            synchronized(left) {
                if (refresh && left.size > 1) left.removeFirst()
                left.first()
            }
        }
    }

    companion object {
        private lateinit var server: Program
        private val address get() = server.announced("listen=")

        @BeforeAll
        @JvmStatic
        fun start() {
            server = Program.build("../contract", "contract").start("serve", "-watch-stdin")
        }

        @AfterAll
        @JvmStatic
        fun stop() {
            server.close()
        }

        private val http = java.net.http.HttpClient.newHttpClient()

        /** Talks to the contract server itself, not as a client under test. */
        private fun exchange(method: String, url: String, body: String = ""): String {
            val request = HttpRequest.newBuilder(URI(url)).method(method, HttpRequest.BodyPublishers.ofString(body)).build()
            val response = http.send(request, HttpResponse.BodyHandlers.ofString())
            if (response.statusCode() > 299) fail("$method $url: ${response.statusCode()}\n${response.body()}")
            return response.body()
        }
    }
}

/** What a client has shown and answered in one case. */
private class Report(private val statuses: Channel<Status>) {
    val lines = mutableListOf<JsonObject>()
    private var last = JsonObject(emptyMap())

    /** Writes down statuses until one, or the last, matches. */
    suspend fun await(wanted: JsonObject) {
        withTimeoutOrNull(40.seconds) {
            while (last.isEmpty() || wanted.any { (key, value) -> last[key] != value }) note(statuses.receive())
        } ?: fail("no status matches $wanted; so far\n${lines.joinToString("\n")}")
    }

    /** Writes down the statuses an action has already led to: one from before it must not count as one after it. */
    fun settle() {
        while (true) note(statuses.tryReceive().getOrNull() ?: return)
    }

    private fun note(status: Status) {
        val line = written(status)
        if (line == last) return
        lines += line
        last = line
    }

    /** Does what the user does and writes down what came of it. */
    suspend fun result(session: StatusSession, texts: Texts, what: String, text: String?) {
        val answer = when (what) {
            "nothing" -> return
            "dismiss" -> return session.dismiss().join()
            "foreground" -> return session.foreground().join()
            "retry" -> session.retry().then { emptyMap() }
            "cancel" -> session.cancel().then { emptyMap() }
            "submit" -> session.submit(Submission(text)).then { mapOf("job_id" to JsonPrimitive(it.id), "job_status" to JsonPrimitive(it.status)) }
            "document" -> session.document().then { mapOf("version" to JsonPrimitive(it.version), "content" to it.content) }
            "texts" -> texts.load().then {
                mapOf(
                    "language" to JsonPrimitive(texts.language),
                    "busy" to JsonPrimitive(texts[TextKeys.BUSY_RETRYING]),
                    "later" to JsonPrimitive(texts[TextKeys.SEE_LATER]),
                    "again" to JsonPrimitive(texts[TextKeys.RETRY_BUTTON]),
                )
            }
            else -> fail("the case wants \"$what\", which this driver does not know")
        }
        lines += JsonObject(mapOf<String, JsonElement>("result" to JsonPrimitive(what)) + answer)
    }

    private fun <T> Answer<T>.then(fields: (T) -> Map<String, JsonElement>): Map<String, JsonElement> = when (this) {
        is Answer.Ok -> mapOf("ok" to JsonPrimitive(true)) + fields(value)
        is Answer.Refused -> mapOf(
            "ok" to JsonPrimitive(false),
            "status" to JsonPrimitive(problem.status),
            "code" to JsonPrimitive(problem.code.orEmpty()),
            "retry_after_ms" to JsonPrimitive(problem.retryAfter?.inWholeMilliseconds ?: 0),
        )
        is Answer.None, Answer.NotOffered -> fail("$this")
    }

    companion object {
        /** A status as the cases write it. */
        fun written(s: Status) = JsonObject(
            mapOf(
                "phase" to written(s.phase),
                "spinner" to JsonPrimitive(s.spinner),
                "message_key" to orNull(s.messageKey),
                "retry_attempt" to (s.retryAttempt?.let(::JsonPrimitive) ?: JsonNull),
                "can_retry" to JsonPrimitive(s.canRetry),
                "can_dismiss" to JsonPrimitive(s.canDismiss),
                "connection" to written(s.connection),
                "last_event_id" to JsonPrimitive(s.lastEventId),
                "outcome" to written(s.outcome),
                "event" to orNull(s.event?.name),
                "reason" to orNull(s.event?.reason),
                "message" to orNull(s.event?.message),
                "counts_down" to JsonPrimitive(s.nextTry != null),
                "problem" to orNull(s.problem?.run { listOfNotNull(status, code).joinToString(" ") }),
            ),
        )

        private fun orNull(text: String?) = text?.let(::JsonPrimitive) ?: JsonNull
    }
}
