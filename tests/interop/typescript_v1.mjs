// The official TypeScript SDK, version 1, which knows one era only.
// Usage: node typescript_v1.mjs SERVER

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

import { check, finish } from './report.mjs';
import { longWaits, round } from './round.mjs';

const transport = new StdioClientTransport({ command: process.argv[2] });
const client = new Client({ name: 'interop', version: '1' });

if (await check('typescript 1: connect', () => client.connect(transport))) {
  await longWaits('typescript 1', (params, options) => client.callTool(params, undefined, options));
  await round('typescript 1', client, () => transport.pid);
}
finish();
