// Streamable HTTP in front of a stdio server, just enough for the conformance suite, which knows no
// stdio. It adds nothing of its own to what the server says: an answer goes out as it came in.
// Of the HTTP layer itself (header checks, origin checks, stream resumption) it does nothing.

import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';

const ANSWER_WITHIN = 20_000;

/** One server process. */
class Child {
  #process;
  #listeners = new Set();

  constructor([command, ...args]) {
    this.#process = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#process.stdin.on('error', () => {}); // It has ended, and `ended` says so.
    this.ended = new Promise((resolve) => this.#process.once('close', resolve));
    createInterface({ input: this.#process.stdout }).on('line', (line) => {
      const message = JSON.parse(line);
      for (const listener of this.#listeners) listener(message);
    });
  }

  send(message) {
    this.#process.stdin.write(`${JSON.stringify(message)}\n`);
  }

  /** Calls `listener` with each message until the function that is returned is called. */
  listen(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  close() {
    this.#process.stdin.end();
  }
}

const isNotification = (message) => message.method !== undefined && message.id === undefined;

/** In the era without sessions every request says its version itself. */
const isModern = (message) =>
  message.params?._meta?.['io.modelcontextprotocol/protocolVersion'] !== undefined;

/** What HTTP has to say about an answer of the modern era. */
function statusOf(message) {
  if (!message.error) return 200;
  return message.error.code === -32601 ? 404 : 400;
}

function sendJson(response, status, body, headers = {}) {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
}

function sendError(response, status, code, message, id = null) {
  sendJson(response, status, { jsonrpc: '2.0', id, error: { code, message } });
}

/** An SSE stream that starts with its first event. */
class EventStream {
  constructor(response, headers = {}) {
    this.response = response;
    this.headers = { 'content-type': 'text/event-stream', ...headers };
  }

  send(message) {
    if (!this.response.headersSent) this.response.writeHead(200, this.headers);
    this.response.write(`event: message\ndata: ${JSON.stringify(message)}\n\n`);
  }
}

/**
 * Passes one request on and its answer back; notifications that come before the answer make the
 * response a stream. `done` is called once, however it ends.
 */
function relay(child, request, response, { headers = {}, modern, done = () => {} }) {
  const stream = new EventStream(response, headers);
  const fail = (why) => {
    if (response.headersSent) response.end();
    else sendError(response, 502, -32603, why, request.id);
  };
  const timer = setTimeout(fail, ANSWER_WITHIN, 'the server does not answer');
  child.ended.then(() => fail('the server has ended'));
  const stop = child.listen((message) => {
    if (isNotification(message)) return stream.send(message);
    if (message.id !== request.id) return;
    if (!response.headersSent) {
      return sendJson(response, modern ? statusOf(message) : 200, message, headers);
    }
    stream.send(message);
    response.end();
  });
  response.on('close', () => {
    clearTimeout(timer);
    stop();
    done();
  });
  if (request.method === 'subscriptions/listen') clearTimeout(timer);
  child.send(request);
}

/** Starts the bridge on a free port; `close` ends it and every server behind it. */
export async function startBridge(command) {
  const sessions = new Map();

  const post = (message, session, response) => {
    if (isModern(message) || (session === undefined && message.method !== 'initialize')) {
      const child = new Child(command); // Stateless: a request needs no other.
      if (message.id !== undefined) {
        return relay(child, message, response, { modern: true, done: () => child.close() });
      }
      child.send(message);
      child.close();
      return response.writeHead(202).end();
    }
    if (message.method === 'initialize') {
      const id = randomUUID();
      sessions.set(id, new Child(command));
      return relay(sessions.get(id), message, response, { headers: { 'mcp-session-id': id } });
    }
    const child = sessions.get(session);
    if (!child) return sendError(response, 404, -32001, 'no such session', message.id);
    if (message.id !== undefined) return relay(child, message, response, {});
    child.send(message);
    return response.writeHead(202).end();
  };

  const server = createServer(async (request, response) => {
    const session = request.headers['mcp-session-id'];
    if (request.method === 'POST') {
      let body = '';
      for await (const chunk of request.setEncoding('utf8')) body += chunk;
      let message;
      try {
        message = JSON.parse(body);
      } catch {
        return sendError(response, 400, -32700, 'not JSON');
      }
      return post(message, session, response);
    }
    const child = sessions.get(session);
    if (request.method === 'GET' && child) {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
      return; // The server sends nothing by itself; the stream only has to be there.
    }
    if (request.method === 'DELETE' && child) {
      child.close();
      sessions.delete(session);
      return response.writeHead(200).end();
    }
    return response.writeHead(session && !child ? 404 : 405).end();
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));

  return {
    url: `http://127.0.0.1:${server.address().port}/mcp`,
    close() {
      for (const child of sessions.values()) child.close();
      server.close();
      server.closeAllConnections();
    },
  };
}
