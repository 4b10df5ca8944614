// Reverse proxy from the public port to the live release. Lets a release be replaced while requests are in flight on
// the previous one.
import {
  Agent,
  request as httpRequest,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type ServerResponse,
} from 'node:http';

const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'upgrade',
  'transfer-encoding',
]);

export class Front {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: Infinity });

  pass(request: IncomingMessage, response: ServerResponse, port: number | undefined): void {
    if (port === undefined) {
      unavailable(response);
      return;
    }
    const headers: OutgoingHttpHeaders = {};
    for (let at = 0; at + 1 < request.rawHeaders.length; at += 2) {
      const name = (request.rawHeaders[at] ?? '').toLowerCase();
      if (HOP_BY_HOP.has(name)) continue;
      const value = request.rawHeaders[at + 1] ?? '';
      const known = headers[name];
      headers[name] = known === undefined ? value : [known, value].flat().map(String);
    }
    // A proxy in front of us may have set it; append the address of our peer.
    const peer = request.socket.remoteAddress ?? 'unknown';
    const before = headers['x-forwarded-for'];
    headers['x-forwarded-for'] = before === undefined ? peer : `${[before].flat().join(', ')}, ${peer}`;
    if (request.headers['transfer-encoding'] !== undefined) headers['transfer-encoding'] = 'chunked';
    const onward = httpRequest(
      {
        host: '127.0.0.1',
        port,
        method: request.method,
        path: request.url,
        headers,
        agent: this.#agent,
        setHost: false,
      },
      (answer) => {
        const fields: string[] = [];
        for (let at = 0; at + 1 < answer.rawHeaders.length; at += 2) {
          const name = answer.rawHeaders[at] ?? '';
          if (!HOP_BY_HOP.has(name.toLowerCase())) fields.push(name, answer.rawHeaders[at + 1] ?? '');
        }
        response.writeHead(answer.statusCode ?? 502, fields);
        response.flushHeaders();
        answer.pipe(response);
        answer.on('error', () => response.destroy());
      },
    );
    onward.on('error', () => {
      if (response.headersSent) response.destroy();
      else unavailable(response);
    });
    response.on('close', () => onward.destroy());
    request.pipe(onward);
  }

  close(): void {
    this.#agent.destroy();
  }
}

function unavailable(response: ServerResponse): void {
  const body = JSON.stringify({ code: 'no_release', message: 'No release is live' });
  response.writeHead(503, { 'content-type': 'application/json', 'retry-after': '1' }).end(body);
}
