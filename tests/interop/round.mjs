// What a client does with the server, whichever SDK it is made with.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

import { check } from './report.mjs';

const TOOLS = ['list', 'output', 'send', 'start', 'status', 'stop'];
const DEADLINE = 10_000;

// The leader echoes, and there is a second process that only the server can find.
export const COMMAND = 'sleep 1000 & echo $!; cat';

/** Asks `what` again and again until it gives something that is true. */
export async function until(description, what, within = DEADLINE) {
  const deadline = Date.now() + within;
  for (;;) {
    const value = await what();
    if (value) return value;
    assert(Date.now() < deadline, `no ${description} within ${within} ms`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/**
 * A wait that takes longer than the client hears nothing for, and one that is given up. `callTool`
 * takes the parameters and the options of a request.
 */
export async function longWaits(label, callTool) {
  const call = async (name, args, options) => {
    const result = await callTool({ name, arguments: args }, options);
    assert(!result.isError, textOf(result));
    return JSON.parse(textOf(result));
  };
  await check(`${label}: a long wait tells that it goes on`, async () => {
    await call('start', { command: 'exec sleep 1000', name: 'quiet' });
    let told = 0;
    const args = { id: 'quiet', wait: { pattern: 'never', timeout: 6000 } };
    const options = { onprogress: () => (told += 1), timeout: 5500, resetTimeoutOnProgress: true };
    assert.equal((await call('output', args, options)).wait, 'timeout');
    assert.equal(told, 1);
  });
  await check(`${label}: a wait is given up, and the process left alone`, async () => {
    const giveUp = new AbortController();
    const args = { id: 'quiet', wait: { pattern: 'never', timeout: 60_000 } };
    const given = call('output', args, { signal: giveUp.signal });
    await call('list', {}).catch(() => {});
    giveUp.abort();
    await assert.rejects(given);
    assert.equal((await call('stop', { id: 'quiet' })).exitCode, -1);
  });
}

/** Whether a process is there; one that is dead and not yet buried is not. */
function lives(pid) {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  try {
    return !/^\d+ \(.*\) Z/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return process.platform !== 'linux';
  }
}

/** The text of a result, which must be all of its content. */
function textOf(result) {
  assert.equal(result.content.length, 1);
  assert.equal(result.content[0].type, 'text');
  return result.content[0].text;
}

/**
 * One whole round. `client` is a connected client of either SDK, `serverPid` tells the pid of its
 * server.
 */
export async function round(label, client, serverPid) {
  const call = async (name, args = {}) => {
    const result = await client.callTool({ name, arguments: args });
    const text = textOf(result);
    assert(!result.isError, `${name} says: ${text}`);
    return JSON.parse(text);
  };
  const started = async (name) => {
    const { id, pid } = await call('start', { command: COMMAND, name });
    const child = await until('pid of the second process', async () =>
      Number((await call('output', { id })).stdout.split('\n')[0]),
    );
    return { id, pids: [pid, child] };
  };
  const gone = (pids) => until('end of the processes', () => !pids.some(lives), 2000);

  const steps = {
    'six tools': async () => {
      const { tools } = await client.listTools();
      assert.deepEqual(tools.map((tool) => tool.name).sort(), TOOLS);
    },
    'start, send, output, status, stop': async () => {
      const { id, pids } = await started('echo');
      assert.match(id, /^sc-[0-9a-f]{6}$/);
      assert.deepEqual(await call('send', { id, input: 'grüße' }), { ok: true });
      await until('echo', async () => (await call('output', { id })).stdout.includes('grüße\n'));
      const status = await call('status', { id: 'echo' });
      assert.equal(status.state, 'running');
      assert.equal(status.exitCode, null);
      assert.equal((await call('stop', { id })).exitCode, -1);
      assert(!pids.some(lives), 'stop answered before the tree was gone');
      assert.equal((await call('list')).find((entry) => entry.id === id).state, 'killed');
    },
    'unknown id': async () => {
      const result = await client.callTool({ name: 'status', arguments: { id: 'sc-000000' } });
      assert.equal(result.isError, true);
      assert.match(textOf(result), /sc-000000/);
    },
    'close in 2 s, nothing left': async () => {
      const { pids } = await started('left');
      const server = serverPid();
      const before = Date.now();
      await client.close();
      const took = Date.now() - before;
      assert(took < 2000, `closing took ${took} ms`);
      await gone([server, ...pids]);
    },
  };
  for (const [name, step] of Object.entries(steps)) {
    if (!(await check(`${label}: ${name}`, step))) break;
  }
}
