// HTTP as bytes on a socket, for requests that no client library sends.
import { connect, type Socket } from 'node:net';

export type RawExchange = {
  readonly socket: Socket;
  /** Everything received so far. */
  received(): string;
  /** When the server has closed the connection: everything received, and how long it took. */
  readonly closed: Promise<{ readonly text: string; readonly ms: number }>;
};

export function sendRaw(url: string, bytes: string | Buffer): RawExchange {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  let text = '';
  socket.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')));
  socket.on('error', () => {});
  socket.write(bytes);
  const began = performance.now();
  const closed = new Promise<{ text: string; ms: number }>((resolve) => {
    socket.once('close', () => resolve({ text, ms: performance.now() - began }));
  });
  return { socket, received: () => text, closed };
}

export type RawAnswer = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
};

/** Parses all received responses. Each must have a Content-Length. */
export function parseAnswers(text: string): RawAnswer[] {
  const answers: RawAnswer[] = [];
  for (let rest = text; rest !== '';) {
    const end = rest.indexOf('\r\n\r\n');
    if (end < 0) throw new Error(`not the head of an answer: ${rest}`);
    const [line = '', ...lines] = rest.slice(0, end).split('\r\n');
    const headers = Object.fromEntries(
      lines.map((line) => [
        line.slice(0, line.indexOf(':')).toLowerCase(),
        line.slice(line.indexOf(':') + 1).trim(),
      ]),
    );
    const from = end + 4;
    const to = from + Number(headers['content-length'] ?? 0);
    answers.push({ status: Number(line.split(' ')[1]), headers, body: rest.slice(from, to) });
    rest = rest.slice(to);
  }
  return answers;
}
