package dev.tidings.client

import java.io.File
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.TestFactory

/** The vectors that all clients share, read as they are. */
class VectorsTest {
    @TestFactory
    fun `sse-parse`() = tests("sse-parse")

    @TestFactory
    fun `status-machine`() = tests("status-machine")

    private fun tests(format: String): List<DynamicTest> {
        val directory = File(System.getenv("TIDINGS_VECTORS").orEmpty().ifEmpty { "../vectors" })
        val files = directory.listFiles { file -> file.name.endsWith(".json") }.orEmpty().associate { it.path to it.readText() }
        return vectorCases(format, files).map { DynamicTest.dynamicTest(it.name) { it.check() } }
    }
}
