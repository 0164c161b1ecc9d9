import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer, type AddressInfo, type NetConnectOpts, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** Something that was started, and how to end it. */
export interface Started {
  readonly url: string;
  readonly stop: () => Promise<void> | void;
}

/** Starts the real program in dev mode. TIDINGS_PROGRAM is one that is built already. */
export async function startProgram(): Promise<Started> {
  const dir = mkdtempSync(join(tmpdir(), "tidings-program-"));
  let binary = process.env["TIDINGS_PROGRAM"];
  if (!binary) {
    binary = join(dir, "tidings");
    const top = fileURLToPath(new URL("../../..", import.meta.url));
    execFileSync("go", ["build", "-o", binary, "./cmd/tidings"], { cwd: top, stdio: ["ignore", "inherit", "inherit"] });
  }
  const program = spawn(binary, ["dev"], {
    env: {
      HOME: dir, TIDINGS_LISTEN: "127.0.0.1:0", TIDINGS_ORIGINS: "*", TIDINGS_OPS_LISTEN: "127.0.0.1:0", TIDINGS_LOCAL_LATENCY: "0s",
      TIDINGS_CALL_FIRST_PAUSE: "10ms", TIDINGS_QUEUE_DELAYS: "100ms", TIDINGS_LOG_LEVEL: "error",
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const url = await new Promise<string>((resolve, reject) => {
    createInterface(program.stdout).on("line", (line) => {
      const found = /\bapi=(\S+)/.exec(line);
      if (found) resolve(found[1]!);
    });
    program.once("exit", (code) => reject(new Error(`the program ended with ${code}`)));
  });
  const stop = async () => {
    const ended = new Promise((resolve) => program.once("exit", resolve));
    program.kill("SIGKILL"); // it would wait for streams
    await ended;
    rmSync(dir, { recursive: true, force: true });
  };
  return { url, stop };
}

/** Starts an nginx as it comes, with its default buffering, in front of the program. It listens on a socket file. */
export function startNginx(program: string): { path: string; stop: () => void } {
  const dir = mkdtempSync(join(tmpdir(), "tidings-nginx-"));
  const conf = `pid nginx.pid;
error_log error.log warn;
worker_processes 1;
events { worker_connections 256; }
http {
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  server {
    listen unix:${dir}/socket;
    location / { proxy_pass ${program}; }
  }
}
`;
  writeFileSync(join(dir, "nginx.conf"), conf);
  const nginx = (...args: string[]) => execFileSync("nginx", ["-p", dir, "-c", "nginx.conf", "-e", "error.log", ...args], { stdio: "inherit" });
  nginx(); // returns once it listens
  const stop = () => {
    nginx("-s", "stop"); // by the process id in its own file
    rmSync(dir, { recursive: true, force: true });
  };
  return { path: join(dir, "socket"), stop };
}

/** A way to a server that can be cut. */
export async function startWay(to: NetConnectOpts): Promise<Started & { kill: () => void }> {
  const open = new Set<Socket>();
  const server = createServer((here) => {
    const there = connect(to);
    open.add(here);
    for (const [from, other] of [[here, there], [there, here]] as const) {
      from.on("error", () => {}); // close comes after it
      from.on("close", () => (open.delete(from), other.destroy()));
      from.pipe(other);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const kill = () => open.forEach((socket) => socket.resetAndDestroy());
  const stop = async () => {
    kill();
    await new Promise((resolve) => server.close(resolve));
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, kill, stop };
}

/** Where a URL's server listens. */
export function addressOf(url: string): NetConnectOpts {
  const { hostname, port } = new URL(url);
  return { host: hostname, port: Number(port) };
}
