// The schema against the one of the last release: a change that breaks a client
// fails. `make baseline` moves it, on purpose.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const baseline = join(here, 'schema.baseline.graphqls');
const inspector = createRequire(import.meta.url).resolve('@graphql-inspector/cli');

// diff returns the exit status: 1 where something breaks.
function diff(schema, stdio) {
  return spawnSync(process.execPath, [inspector, 'diff', baseline, schema], { stdio, cwd: here }).status;
}

const status = diff(join(here, '..', 'schema.graphqls'), 'inherit');

// A check that passes whatever it is shown is none: a boolean that becomes
// nullable breaks clients, and must not pass.
const dir = mkdtempSync(join(tmpdir(), 'tallyfeed-checks-'));
try {
  const text = readFileSync(baseline, 'utf8');
  const broken = text.replace('hasNextPage: Boolean!', 'hasNextPage: Boolean');
  const file = join(dir, 'broken.graphqls');
  writeFileSync(file, broken);
  if (broken === text || diff(file, 'ignore') !== 1) {
    console.error('the diff lets a breaking change pass: it proves nothing');
    process.exit(1);
  }
} finally {
  rmSync(dir, { recursive: true, force: true });
}
process.exit(status);
