// The program as it is built, with embedded parts and a data folder of its own.
import type { ChildProcess } from 'node:child_process';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

export const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

// Nothing of a developer's settings.
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('TALLYFEED_')));

export class Server {
  readonly #dir = mkdtempSync(join(tmpdir(), 'tallyfeed-web-'));
  readonly #program = join(this.#dir, 'tallyfeed');
  readonly #tokens = new Map<string, string>();
  #process: ChildProcess | undefined;
  /** Without a slash at the end. It stays over restarts. */
  address = 'http://127.0.0.1:0';
  /** The address with a token that the program prints. */
  page = '';

  static async start() {
    const server = new Server();
    execFileSync('go', ['build', '-o', server.#program, '.'], { cwd: root, stdio: 'inherit' });
    await server.restart();
    return server;
  }

  get api() {
    return `${this.address}/graphql`;
  }

  /** Starts the program on the port and the folder it had before. */
  async restart() {
    const listen = new URL(this.address);
    const args = ['serve', '--listen', `${listen.hostname}:${listen.port || 0}`, '--data', join(this.#dir, 'data')];
    const started = spawn(this.#program, args, { env });
    this.#process = started;
    let text = '';
    started.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
    started.stderr.on('data', (chunk: Buffer) => (text += chunk.toString()));
    await until('the server is ready', async () => {
      if (started.exitCode !== null) throw new Error(`the server has ended:\n${text}`);
      const address = /^address +(http:\S+)\/$/m.exec(text)?.[1];
      this.page = /^page +(\S+)$/m.exec(text)?.[1] ?? '';
      if (!address || !this.page) return false;
      this.address = address;
      return (await fetch(`${address}/readyz`)).ok;
    }, 60_000);
  }

  /** Holds it still: it takes requests and answers none. */
  freeze() {
    this.#process?.kill('SIGSTOP');
  }

  async kill() {
    if (!this.#process || this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const ended = once(this.#process, 'exit');
    this.#process.kill('SIGKILL');
    await ended;
  }

  async end() {
    await this.kill();
    rmSync(this.#dir, { recursive: true, force: true });
  }

  token(sub: string) {
    let token = this.#tokens.get(sub);
    if (!token) {
      const name = sub.charAt(0).toUpperCase() + sub.slice(1);
      const args = ['token', '--sub', sub, '--name', name, '--data', join(this.#dir, 'data')];
      this.#tokens.set(sub, (token = execFileSync(this.#program, args, { env, encoding: 'utf8' }).trim()));
    }
    return token;
  }

  /** Asks the API as a client without a cache. */
  async ask<Data>(token: string, query: string, variables: Record<string, unknown> = {}) {
    const response = await fetch(this.api, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${token}` },
      body: JSON.stringify({ query, variables }),
    });
    const { data, errors } = (await response.json()) as { data: Data; errors?: unknown };
    if (errors) throw new Error(JSON.stringify(errors));
    return data;
  }

  /** Likes a post as somebody. */
  like(sub: string, id: string) {
    return this.ask(this.token(sub), 'mutation($id:ID!){like(input:{subjectId:$id}){changed}}', { id });
  }
}

/** Waits for a state, and fails by its name. */
export async function until(what: string, holds: () => Promise<boolean> | boolean, timeout = 15_000) {
  const deadline = Date.now() + timeout;
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`not within ${timeout} ms: ${what}`);
    await sleep(25);
  }
}
