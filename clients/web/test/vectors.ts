import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const dir = process.env["TIDINGS_VECTORS"] || fileURLToPath(new URL("../../vectors", import.meta.url));

/** Every file of one format in the vectors' directory. None is an error: no cases is not a pass. */
export function vectorFiles<T>(format: string): T[] {
  const files = readdirSync(dir)
    .filter((name) => name.endsWith(".json"))
    .map((name) => JSON.parse(readFileSync(join(dir, name), "utf8")) as T & { format?: string; version?: number })
    .filter((file) => file.format === format);
  if (files.length === 0) throw new Error(`no file of format ${format} in ${dir}`);
  const other = files.find((file) => file.version !== 1);
  if (other) throw new Error(`version ${other.version} of ${format} is not known here`);
  return files;
}
