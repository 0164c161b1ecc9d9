// Runs the tests that the Kotlin compiler has made JavaScript of, with Node's own runner.
//   node node.cjs target/js/tidings-client-test.js [class]
const test = require("node:test");
const path = require("node:path");

const [bundle, only] = process.argv.slice(2);
let count = 0;
// kotlin.test looks for these two by name; suites are packages, then classes.
globalThis.describe = (name, body) => {
  if (!only || only === name || name.includes(".")) test.describe(name, body);
};
globalThis.it = (name, body) => {
  count++;
  test.it(name, body);
};
require(path.resolve(bundle));
if (count === 0 && !only) throw new Error(`no test in ${bundle}`);
