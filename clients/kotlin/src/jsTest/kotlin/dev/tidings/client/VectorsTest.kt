package dev.tidings.client

import kotlin.test.Test

private external val process: dynamic

/** The vectors that all clients share, read as they are. */
class VectorsTest {
    @Test
    fun sseParse() = run("sse-parse")

    @Test
    fun statusMachine() = run("status-machine")

    private fun run(format: String) {
        val given = process.env.TIDINGS_VECTORS as String?
        val directory = if (given.isNullOrEmpty()) "../vectors" else given
        val files = readdirSync(directory).filter { it.endsWith(".json") }.associate { it to readFileSync("$directory/$it", "utf8") }
        for (case in vectorCases(format, files)) {
            try {
                case.check()
            } catch (e: Throwable) {
                throw AssertionError("${case.name}: ${e.message}", e)
            }
        }
    }
}
