import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { chromium, type Page } from "playwright-core";
import ts from "typescript";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chromiumArgs, chromiumPath } from "./chromium.js";
import { journeys } from "./journeys.js";
import { addressOf, startNginx, startProgram, startWay } from "./program.js";

// In headless Chromium, with the package as it was built, from a page of another
// origin than the server's: directly, and through an nginx as it comes.

const file = (name: string) => fileURLToPath(new URL(`../${name}`, import.meta.url));

const html = `<!doctype html><title>A page</title><script type="module">
import * as client from "/dist/index.js";
import { journeys } from "/journeys.js";
globalThis.go = (name, where) => journeys[name].go({ ...where, client, kill: globalThis.kill });
</script>`;

/** Serves a page with the package as it was built, and the journeys as a module. */
const page = createServer((request, response) => {
  const path = new URL(request.url ?? "/", "http://page").pathname;
  const send = (type: string, body: string | Buffer) => response.writeHead(200, { "Content-Type": type }).end(body);
  if (path === "/") return send("text/html", html);
  if (path === "/journeys.js") {
    const source = readFileSync(file("test/journeys.ts"), "utf8");
    const options = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 };
    return send("text/javascript", ts.transpileModule(source, { compilerOptions: options }).outputText);
  }
  if (/^\/dist\/[a-z-]+\.js$/.test(path) && existsSync(file(path))) return send("text/javascript", readFileSync(file(path)));
  response.writeHead(404).end();
});

const program = await startProgram();
const nginx = startNginx(program.url);
const browser = await chromium.launch({ executablePath: chromiumPath(), args: chromiumArgs });

beforeAll(() => new Promise<void>((resolve) => page.listen(0, "127.0.0.1", resolve)));
afterAll(async () => {
  await browser.close();
  page.close();
  nginx.stop();
  await program.stop();
});

/** What the page offers. */
declare const go: (name: string, where: { baseUrl: string; session: string }) => Promise<unknown>;

/** A page of its own for each journey: a browser opens six streams to a host at most. */
async function inPage<T>(use: (page: Page, complaints: string[]) => Promise<T>): Promise<T> {
  const context = await browser.newContext();
  const opened = await context.newPage();
  const complaints: string[] = [];
  opened.on("pageerror", (error) => complaints.push(error.message));
  opened.on("console", (message) => {
    if (message.type() === "error" && /CORS|Access-Control/.test(message.text())) complaints.push(message.text());
  });
  await opened.goto(`http://127.0.0.1:${(page.address() as AddressInfo).port}/`);
  try {
    return await use(opened, complaints);
  } finally {
    await context.close();
  }
}

describe.each([
  { way: "directly", to: addressOf(program.url) },
  { way: "through nginx with default buffering", to: { path: nginx.path } },
])("browser $way", ({ way, to }) => {
  it.each(Object.entries(journeys))("%s", { timeout: 60_000 }, async (name, journey) => {
    const cut = await startWay(to);
    const session = `${way} ${name}`.replace(/\W+/g, "-");
    try {
      const found = await inPage(async (opened, complaints) => {
        await opened.exposeFunction("kill", cut.kill);
        expect(new URL(opened.url()).origin).not.toBe(cut.url);
        const result = await opened.evaluate(([name, where]) => go(name, where), [name, { baseUrl: cut.url, session }] as const);
        expect(complaints).toEqual([]);
        return result;
      });
      expect(found).toEqual(journey.finds);
    } finally {
      await cut.stop();
    }
  });
});
