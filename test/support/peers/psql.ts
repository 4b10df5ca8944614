// Uses libpq to judge what an address means: psql connects to a server that only records who connected, to which
// database and with which password.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../../src/lib/free-port.ts';

export const withoutPsql: string | undefined =
  spawnSync('psql', ['--version']).status === 0 ? undefined : 'psql is not installed';

/** Parameters that libpq read from an address, or its error. */
export type Verdict =
  | {
      readonly kind: 'connected';
      readonly way: 'tcp' | 'socket';
      readonly port: number;
      readonly user: string;
      readonly database: string;
      readonly password: string | undefined;
    }
  | { readonly kind: 'refused'; readonly message: string };

export type Judge = {
  /** Two ports that are listened on, on 127.0.0.1 and ::1 and in `folder`. */
  readonly ports: readonly [number, number];
  readonly folder: string;
  judge(addresses: readonly string[]): Promise<Verdict[]>;
  close(): Promise<void>;
};

const SSL_REQUEST = 80_877_103;
const GSS_REQUEST = 80_877_104;

export async function startJudge(): Promise<Judge> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-judge-'));
  const ports = [await freePort(), await freePort()] as const;
  const servers: Server[] = [];
  let came: Verdict | undefined;
  const listen = async (way: 'tcp' | 'socket', port: number, host?: string): Promise<void> => {
    const server = createServer((socket) =>
      welcome(socket, (visitor) => (came = { kind: 'connected', way, port, ...visitor })),
    );
    server.listen(host === undefined ? { path: join(folder, `.s.PGSQL.${port}`) } : { port, host });
    await once(server, 'listening');
    servers.push(server);
  };
  for (const port of ports) {
    await listen('socket', port);
    await listen('tcp', port, '127.0.0.1');
    // A machine without IPv6 has no ::1 to try either.
    await listen('tcp', port, '::1').catch(() => {});
  }
  const { PATH } = process.env;
  const judgeOne = async (address: string): Promise<Verdict> => {
    came = undefined;
    const psql = spawn('psql', ['-X', '-w', '-c', '', address], {
      env: { PATH, LC_ALL: 'C', PGPASSFILE: '/nowhere' },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let said = '';
    psql.stderr.on('data', (bytes: Buffer) => (said += bytes.toString()));
    await once(psql, 'close');
    return came ?? { kind: 'refused', message: said.trim() };
  };
  return {
    ports,
    folder,
    async judge(addresses) {
      const verdicts: Verdict[] = [];
      for (const address of addresses) verdicts.push(await judgeOne(address));
      return verdicts;
    },
    async close() {
      await Promise.all(
        servers.map(async (server) => {
          const closed = once(server, 'close');
          server.close();
          await closed;
        }),
      );
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

type Visitor = { readonly user: string; readonly database: string; readonly password: string | undefined };

function welcome(socket: Socket, onVisitor: (visitor: Visitor) => void): void {
  let bytes = Buffer.alloc(0);
  let visitor: Visitor | undefined;
  socket.on('error', () => {});
  socket.on('data', (more: Buffer) => {
    bytes = Buffer.concat([bytes, more]);
    if (visitor === undefined) {
      if (bytes.length < 8 || bytes.length < bytes.readInt32BE(0)) return;
      const packet = bytes.subarray(0, bytes.readInt32BE(0));
      bytes = bytes.subarray(packet.length);
      const code = packet.readInt32BE(4);
      if (code === SSL_REQUEST || code === GSS_REQUEST) {
        socket.write('N');
        return;
      }
      const words = packet.toString('utf8', 8).split('\0');
      const value = (name: string): string =>
        words[words.findIndex((word, at) => at % 2 === 0 && word === name) + 1] ?? '';
      visitor = { user: value('user'), database: value('database'), password: undefined };
      onVisitor(visitor);
      socket.write(message('R', int(3)));
      return;
    }
    // The statement does not matter: all parameters are known.
    if (bytes[0] !== 0x70) {
      socket.destroy();
      return;
    }
    if (bytes.length < 5 || bytes.length < 1 + bytes.readInt32BE(1)) return;
    const password = bytes.toString('utf8', 5, bytes.readInt32BE(1));
    bytes = Buffer.alloc(0);
    onVisitor({ ...visitor, password });
    const parameters = [
      'server_version\x0015.0\0',
      'client_encoding\0UTF8\0',
      'standard_conforming_strings\0on\0',
    ];
    socket.write(
      Buffer.concat([
        message('R', int(0)),
        ...parameters.map((text) => message('S', Buffer.from(text))),
        message('K', Buffer.concat([int(1), int(1)])),
        message('Z', Buffer.from('I')),
      ]),
    );
  });
}

function int(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

function message(type: string, body: Buffer): Buffer {
  return Buffer.concat([Buffer.from(type), int(body.length + 4), body]);
}
