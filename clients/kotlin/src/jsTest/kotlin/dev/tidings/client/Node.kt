@file:JsModule("node:fs")
@file:JsNonModule

package dev.tidings.client

internal external fun readdirSync(path: String): Array<String>

internal external fun readFileSync(path: String, encoding: String): String
