import { test as base, expect, type Locator, type Page } from "@playwright/test";
import axe from "axe-core";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

export { expect };

/** A started `tidings dev`, one for each worker, on ports of its own. */
async function start(): Promise<{ url: string; stop: () => Promise<void> }> {
  const server = spawn(process.env["TIDINGS_BINARY"]!, ["dev"], {
    env: { PATH: process.env["PATH"], TIDINGS_LISTEN: "127.0.0.1:0", TIDINGS_OPS_LISTEN: "127.0.0.1:0", TIDINGS_LOG_LEVEL: "error" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const gone = new Promise<never>((_, reject) => server.once("exit", (code) => reject(new Error(`tidings dev ended with ${code}`))));
  gone.catch(() => {});
  const ready = new Promise<string>((resolve) => {
    createInterface(server.stdout).on("line", (line) => {
      const api = /^ready .*\bapi=(\S+)/.exec(line);
      if (api) resolve(api[1]!);
    });
  });
  const url = await Promise.race([ready, gone]);
  return { url, stop: async () => { server.kill("SIGTERM"); await gone.catch(() => {}); } };
}

/** The page of a started server, and what the tests look for on it. */
export class Demo {
  readonly raw: Locator;
  readonly screen: Locator;
  readonly news: Locator;
  readonly later: Locator;
  readonly attempts: Locator;
  readonly runNow: Locator;

  constructor(readonly page: Page, readonly url: string) {
    this.raw = page.locator("#raw");
    this.screen = page.locator("#screen");
    this.news = page.locator("#news");
    this.later = this.screen.locator(".later");
    this.attempts = page.locator("#attempts > .attempt");
    this.runNow = page.getByRole("button", { name: /^Run now/ });
  }

  /** Opens the page. It begins with a run by itself, which another takes the place of. */
  async open(): Promise<void> {
    await this.page.goto(this.url);
    await expect(this.later).toBeVisible();
  }

  scenario(name: string): Locator {
    return this.page.getByRole("button", { name });
  }

  /** The finished summary's title, on the phone. */
  title(): Locator {
    return this.screen.getByRole("heading", { level: 3 });
  }

  /** A call's dot: attempt and call from 1. */
  call(attempt: number, call: number): Locator {
    return this.attempts.nth(attempt - 1).locator(".call").nth(call - 1);
  }

  /** The names of the raw stream's events, in order. */
  events(): Promise<string[]> {
    return this.raw.locator(".frame .event span").allTextContents();
  }

  /** The ids of the raw stream's events, in order. */
  async ids(): Promise<number[]> {
    return (await this.raw.locator(".frame .id span").allTextContents()).map(Number);
  }

  /** The data of the raw stream's events, in order. */
  async data(): Promise<Record<string, unknown>[]> {
    return (await this.raw.locator(".frame .data > span").allTextContents()).map((text) => JSON.parse(text) as Record<string, unknown>);
  }

  /** A session's calls to the model, from the ledger. */
  async calls(sessionId: string): Promise<{ started_at: string }[]> {
    const answer = await this.page.request.get(`${this.url}/api/v1/sessions/${sessionId}/summary/attempts`);
    return ((await answer.json()) as { calls: { started_at: string }[] }).calls;
  }

  /** What the API says in a language. */
  async messages(language: string): Promise<Record<string, string>> {
    const answer = await this.page.request.get(`${this.url}/api/v1/messages?lang=${language}`);
    return ((await answer.json()) as { messages: Record<string, string> }).messages;
  }

  /** Fails with what axe finds wrong for people who use the page otherwise. */
  async accessible(state: string): Promise<void> {
    await this.page.evaluate(axe.source);
    const found = await this.page.evaluate(async () => {
      const { axe: checker } = window as unknown as { axe: typeof axe };
      await Promise.all(document.getAnimations().filter((a) => a.effect?.getComputedTiming().iterations !== Infinity).map((a) => a.finished.catch(() => {})));
      const { violations } = await checker.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] });
      return violations.map((v) => `${v.id}: ${v.help}\n  ${v.nodes.map((n) => `${n.html}\n  ${n.failureSummary}`).join("\n  ")}`);
    });
    expect(found, `axe, ${state}`).toEqual([]);
  }
}

export const test = base.extend<{ demo: Demo; closed: void }, { server: { url: string } }>({
  server: [async ({}, use) => {
    const server = await start();
    await use(server);
    await server.stop();
  }, { scope: "worker" }],
  demo: async ({ page, server }, use) => use(new Demo(page, server.url)),
  // The page asks nobody else for anything, breaks no policy, and throws nothing.
  closed: [async ({ page, server }, use) => {
    const wrong: string[] = [];
    page.on("pageerror", (error) => wrong.push(error.message));
    page.on("request", (request) => { if (!request.url().startsWith(server.url)) wrong.push(`asked for ${request.url()}`); });
    page.on("console", (message) => { if (/Content Security Policy/.test(message.text())) wrong.push(message.text()); });
    await use();
    expect(wrong).toEqual([]);
  }, { auto: true }],
});
