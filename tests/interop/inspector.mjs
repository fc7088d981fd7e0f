// The official Inspector's command line, in both eras: what it says, and that it has no complaint.
// Usage: node inspector.mjs SERVER

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { check, finish } from './report.mjs';

const INSPECTOR = join(
  import.meta.dirname,
  'node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js',
);
const CONFIG = join(import.meta.dirname, 'inspector.json');

/** Its exit code where a tool says that a call failed. */
const TOOL_ERROR = 5;

const server = (protocolEra) => ({
  type: 'stdio',
  command: process.argv[2],
  args: [],
  protocolEra,
});
writeFileSync(
  CONFIG,
  JSON.stringify({ mcpServers: { legacy: server('legacy'), modern: server('modern') } }),
);

async function inspect(era, ...args) {
  const inspector = spawn(
    process.execPath,
    [INSPECTOR, '--cli', '--config', CONFIG, '--server', era, '--format', 'json', ...args],
    {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, MCP_INSPECTOR_SECRET_STORE: 'memory' },
    },
  );
  let stdout = '';
  let stderr = '';
  inspector.stdout.setEncoding('utf8').on('data', (chunk) => (stdout += chunk));
  inspector.stderr.setEncoding('utf8').on('data', (chunk) => (stderr += chunk));
  const code = await new Promise((resolve) => inspector.once('close', resolve));
  return { code, stdout, stderr };
}

/** What a call gives that must be done without a word of complaint. */
async function clean(era, ...args) {
  const { code, stdout, stderr } = await inspect(era, ...args);
  assert.equal(code, 0, stderr);
  // What it says of itself, about where it keeps secrets, is no complaint.
  assert.equal(stderr.replace(/^(\[mcp-inspector\].*)?\n/gm, ''), '');
  return JSON.parse(stdout).result;
}

const toolCall = (tool, args) =>
  ['--method', 'tools/call', '--tool-name', tool, '--tool-args-json', JSON.stringify(args)];

for (const era of ['legacy', 'modern']) {
  await check(`inspector ${era}: six tools, strict schema check`, async () => {
    const { tools } = await clean(era, '--method', 'tools/list', '--strict');
    assert.equal(tools.length, 6);
  });
  await check(`inspector ${era}: a call`, async () => {
    const { content } = await clean(era, ...toolCall('start', { command: 'cat', name: 'echo' }));
    assert.equal(JSON.parse(content[0].text).name, 'echo');
  });
  await check(`inspector ${era}: a call that fails`, async () => {
    const { code, stdout, stderr } = await inspect(era, ...toolCall('stop', { id: 'sc-000000' }));
    assert.equal(code, TOOL_ERROR);
    assert.match(stdout + stderr, /sc-000000/);
  });
}
finish();
