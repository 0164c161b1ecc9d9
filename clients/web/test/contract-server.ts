import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** Builds and starts the contract server. It ends when its standard input does. */
export async function startContractServer(): Promise<{ url: string; stop: () => void }> {
  const dir = mkdtempSync(join(tmpdir(), "tidings-contract-"));
  const binary = join(dir, "contract");
  const source = fileURLToPath(new URL("../../contract", import.meta.url));
  try {
    execFileSync("go", ["build", "-o", binary, "."], { cwd: source, stdio: ["ignore", "inherit", "inherit"] });
  } catch (error) {
    throw new Error("cannot build the contract server; it needs Go 1.25 or later (https://go.dev/dl)", { cause: error });
  }
  const server = spawn(binary, ["serve", "-watch-stdin"], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface(server.stdout);
  const first = await new Promise<string>((resolve, reject) => {
    lines.once("line", resolve);
    server.once("exit", (code) => reject(new Error(`the contract server ended with ${code}`)));
  });
  return {
    url: first.replace(/^listen=/, ""),
    stop: () => {
      server.stdin.end();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
