import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Builds the program whose page is tested, unless make has. Returns what clears it away. */
export default function build(): () => void {
  const built = process.env["TIDINGS_PROGRAM"];
  if (built) {
    process.env["TIDINGS_BINARY"] = built;
    return () => {};
  }
  const dir = mkdtempSync(join(tmpdir(), "tidings-demo-"));
  const binary = join(dir, "tidings");
  execFileSync("go", ["build", "-o", binary, "./cmd/tidings"], {
    cwd: fileURLToPath(new URL("../../../..", import.meta.url)), stdio: ["ignore", "inherit", "inherit"],
  });
  process.env["TIDINGS_BINARY"] = binary;
  return () => rmSync(dir, { recursive: true, force: true });
}
