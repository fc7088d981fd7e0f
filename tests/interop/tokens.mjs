// What a model has to read and write: tools, instructions, and the session of the README.
// Usage: node tokens.mjs SERVER ROOT

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { encode } from 'gpt-tokenizer/encoding/o200k_base';

import { check, finish, report } from './report.mjs';

const [SERVER, ROOT] = process.argv.slice(2);
const tokens = (text) => encode(text).length;

/** Shown also where it holds. */
const atMost = (what, count, limit) => {
  console.log(`${what}: ${count} tokens`);
  assert.ok(count <= limit, `${what}: ${count} tokens, more than ${limit}`);
};

const client = new Client({ name: 'tokens', version: '0' });
await client.connect(new StdioClientTransport({ command: SERVER }));
const { tools } = await client.listTools();

await check('tokens: six tools with every option', () => {
  const read = tools.map(({ name, description, inputSchema }) => ({ name, description, inputSchema }));
  atMost('tools', tokens(JSON.stringify(read)), 1000);
});

await check('tokens: instructions', () => {
  atMost('instructions', tokens(client.getInstructions()), 119);
});

await check('tokens: schemas hold nothing that a client may choke on', () => {
  const look = (value) => {
    if (value === null || typeof value !== 'object') return;
    for (const key of ['format', '$schema', 'anyOf', 'oneOf', 'nullable']) {
      assert.ok(!(key in value), `${key} in ${JSON.stringify(value)}`);
    }
    assert.ok(!Array.isArray(value.type), JSON.stringify(value));
    Object.values(value).forEach(look);
  };
  tools.forEach(({ inputSchema }) => look(inputSchema));
});

await check('tokens: the session of the README', () => {
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8');
  const [, session] = readme.match(/### A session\n[^]*?```text\n([^]*?)\n```/);
  const parts = session.split('\n\n').filter((part) => !part.startsWith('$ '));
  assert.equal(parts.length, 3, `${parts.length} calls`);
  atMost('session', parts.map(tokens).reduce((sum, count) => sum + count), 235);
});

await client.close().catch((error) => report('tokens: the end', error));
finish();
