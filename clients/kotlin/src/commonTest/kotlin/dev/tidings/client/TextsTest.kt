package dev.tidings.client

import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertIs
import kotlin.test.assertNotEquals
import kotlin.test.assertNull
import kotlinx.coroutines.async

class TextsTest {
    private val keys = TextKeys.run { listOf(BUSY_RETRYING, CHECKING, RETRY_BUTTON, SEE_LATER) } +
        listOf("summary", "guidance", "classification").flatMap { listOf(TextKeys.compiling(it), TextKeys.takingLonger(it), TextKeys.error(it)) }

    private fun Bubble.textsIn(tag: String?) = Texts(client, tag)

    @Test
    fun builtInTextsHaveEveryKeyInSixteenLanguages() = bubble {
        val english = textsIn("en")
        for (tag in "ar da de en es fi fr it ja ko nb nl pl pt sv zh".split(" ")) {
            val texts = textsIn(tag)
            assertEquals(tag, texts.language)
            for (key in keys) {
                assertNotEquals(key, texts[key], tag)
                if (tag != "en") assertNotEquals(english[key], texts[key], tag)
            }
        }
        assertEquals("no_such_key", english["no_such_key"])
    }

    @Test
    fun aTagFindsItsLanguage() = bubble {
        val tags = mapOf("pt-BR" to "pt", "zh_Hant_TW" to "zh", "no" to "nb", "nn-NO" to "nb", "DE" to "de", "xx" to "en", "" to "en", null to "en")
        for ((tag, want) in tags) assertEquals(want, textsIn(tag).language, "$tag")
    }

    @Test
    fun theServersTextsComeFirstAndAreAskedForByTheirEtag() = bubble({ language = "nb" }) {
        val texts = client.texts()
        val first = scope.async { texts.load() }
        val request = next()
        assertEquals("/api/v1/messages", request.path)
        assertEquals("nb", request.headers["Accept-Language"])
        assertNull(request.headers["If-None-Match"])
        request.reply(200, """{"language":"nb","messages":{"session_see_later":"Senere","new":"Ny","session_summary_compiling":""}}""", "ETag" to "\"1\"")
        assertEquals(Answer.Ok(Unit), first.await())
        assertEquals("Senere", texts[TextKeys.SEE_LATER])
        assertEquals("Ny", texts["new"])
        assertEquals("Prøv igjen", texts[TextKeys.RETRY_BUTTON])
        assertEquals("Sammenstiller innsiktene…", texts[TextKeys.compiling("summary")])
        val second = scope.async { texts.load() }
        val conditional = next()
        assertEquals("\"1\"", conditional.headers["If-None-Match"])
        conditional.reply(304)
        assertEquals(Answer.Ok(Unit), second.await())
        val third = scope.async { texts.load() }
        next().reply(503, """{"code":"unavailable"}""")
        assertEquals("unavailable", third.await().problem?.code)
        val fourth = scope.async { texts.load() }
        next().reply(200, """{"messages":7}""")
        assertIs<Answer.None>(fourth.await())
        assertEquals("Senere", texts[TextKeys.SEE_LATER])
    }
}
