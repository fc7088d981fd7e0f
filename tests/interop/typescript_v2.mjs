// The official TypeScript client, version 2, in each of its ways to agree on a protocol version.
// Usage: node typescript_v2.mjs SERVER

import assert from 'node:assert/strict';

import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

import { check, finish } from './report.mjs';
import { longWaits, round } from './round.mjs';

const MODES = [
  { label: 'typescript 2 legacy', mode: 'legacy', version: '2025-11-25' },
  { label: 'typescript 2 auto', mode: 'auto', version: '2026-07-28' },
  { label: 'typescript 2 pinned', mode: { pin: '2026-07-28' }, version: '2026-07-28' },
];

for (const { label, mode, version } of MODES) {
  const transport = new StdioClientTransport({ command: process.argv[2] });
  const client = new Client(
    { name: 'interop', version: '1' },
    { versionNegotiation: { mode } },
  );
  const connected = await check(`${label}: connect, ${version}`, async () => {
    await client.connect(transport);
    assert.equal(client.getNegotiatedProtocolVersion(), version);
  });
  if (connected && mode.pin) {
    await longWaits(label, (params, options) => client.callTool(params, options));
  }
  if (connected) await round(label, client, () => transport.pid);
}
finish();
