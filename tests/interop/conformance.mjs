// The official conformance suite, for both eras, by way of the bridge.
// Usage: node conformance.mjs SERVER

import { spawn } from 'node:child_process';
import { join } from 'node:path';

import { startBridge } from './bridge.mjs';
import { check, finish } from './report.mjs';

const SUITE = join(
  import.meta.dirname,
  'node_modules/@modelcontextprotocol/conformance/dist/index.js',
);
const BASELINE = join(import.meta.dirname, 'baseline.yml');
const RESULTS = join(import.meta.dirname, 'conformance-results');

/** Runs the suite; fails with its own verdict where it is not content. */
async function run(revision, url) {
  const suite = spawn(
    process.execPath,
    [SUITE, 'server', '--url', url, '--requirements', revision]
      .concat(['--expected-failures', BASELINE, '--output-dir', RESULTS]),
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  let output = '';
  suite.stdout.setEncoding('utf8').on('data', (chunk) => (output += chunk));
  const code = await new Promise((resolve) => suite.once('close', resolve));
  if (code !== 0 || !/^Total: [1-9]/m.test(output)) {
    console.log(output.split('=== SUMMARY ===').pop());
    throw new Error('not as the baseline has it; the lines above say where');
  }
}

const bridge = await startBridge([process.argv[2]]);
for (const revision of ['2025-11-25', '2026-07-28']) {
  await check(`conformance ${revision}`, () => run(revision, bridge.url));
}
bridge.close();
finish();
