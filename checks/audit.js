// The audits of graphql-http against the program as it is built: all must be ok.
// A notice or a warning is a client that meets something unexpected.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { buildClientSchema, getIntrospectionQuery } from 'graphql';
import { auditServer } from 'graphql-http';

// As many as version 1.23.1 has: fewer would pass without having been asked.
const AUDITS = 61;

const root = dirname(dirname(fileURLToPath(import.meta.url)));

// serve starts the program with embedded parts on a port of its own, and calls
// use when it is ready.
async function serve(use) {
  const dir = mkdtempSync(join(tmpdir(), 'tallyfeed-checks-'));
  let server;
  try {
    const program = join(dir, 'tallyfeed');
    if (spawnSync('go', ['build', '-o', program, '.'], { cwd: root, stdio: 'inherit' }).status !== 0) {
      throw new Error('the program does not build');
    }
    // Nothing of a developer's settings.
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('TALLYFEED_')));
    server = spawn(program, ['serve', '--listen', '127.0.0.1:0', '--data', join(dir, 'data'), '--introspection', 'on'], { env });
    let text = '';
    server.stdout.on('data', (chunk) => (text += chunk));
    server.stderr.on('data', (chunk) => (text += chunk));
    const deadline = Date.now() + 60_000;
    for (;;) {
      const address = /^address +(http:\S+)\/$/m.exec(text)?.[1];
      if (address && (await fetch(address + '/readyz')).ok) return await use(address);
      if (server.exitCode !== null || Date.now() > deadline) throw new Error('the server does not get ready:\n' + text);
      await sleep(50);
    }
  } finally {
    if (server && server.exitCode === null) {
      const ended = new Promise((resolve) => server.once('exit', resolve));
      server.kill('SIGKILL');
      await ended;
    }
    rmSync(dir, { recursive: true, force: true });
  }
}

// The audits send bare GETs, which any page could make a browser send. Apollo's
// clients add this header to theirs; see CSRF in README.md.
function preflighted(url, options = {}) {
  const headers = new Headers(options.headers);
  if ((options.method ?? 'GET') === 'GET') headers.set('Apollo-Require-Preflight', 'true');
  return fetch(url, { ...options, headers });
}

// introspects asks as tools do, for all there is: the limits of documents must let
// them.
async function introspects(address) {
  const query = getIntrospectionQuery({
    descriptions: true, specifiedByUrl: true, directiveIsRepeatable: true, schemaDescription: true, inputValueDeprecation: true,
  });
  const response = await fetch(address + '/graphql', {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ query }),
  });
  const { data, errors } = await response.json();
  if (errors) {
    console.log('introspection: ' + JSON.stringify(errors));
    return false;
  }
  const schema = buildClientSchema(data);
  console.log(`introspection: ${Object.keys(schema.getTypeMap()).length} types`);
  return true;
}

const failed = await serve(async (address) => {
  const results = await auditServer({ url: address + '/graphql', fetchFn: preflighted });
  const bad = results.filter((result) => result.status !== 'ok');
  for (const { id, name, status, reason } of bad) console.log(`${status} ${id} ${name}: ${reason}`);
  console.log(`graphql-http: ${results.length - bad.length} of ${results.length} audits ok`);
  if (results.length !== AUDITS) console.log(`there should be ${AUDITS} audits`);
  return bad.length > 0 || results.length !== AUDITS || !(await introspects(address));
});
process.exit(failed ? 1 : 0);
