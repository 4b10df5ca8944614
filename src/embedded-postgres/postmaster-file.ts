// Reads postmaster.pid: a running server's own description in its data directory, one value per line.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ifExists } from '../lib/error-code.ts';

export type PostmasterFile = {
  readonly pid: number;
  readonly dataDirectory: string;
  readonly port: number | undefined;
  readonly status: string | undefined;
};

export function parsePostmasterFile(text: string): PostmasterFile | undefined {
  const [pid, dataDirectory, , port, , , , status] = text.split('\n').map((line) => line.trim());
  if (!pid || !dataDirectory || !/^-?\d+$/.test(pid)) return undefined;
  return {
    pid: Math.abs(Number(pid)),
    dataDirectory,
    port: port && /^\d+$/.test(port) ? Number(port) : undefined,
    status: status || undefined,
  };
}

export async function readPostmasterFile(dataDirectory: string): Promise<PostmasterFile | undefined> {
  const text = await ifExists(readFile(postmasterFile(dataDirectory), 'utf8'));
  return text === undefined ? undefined : parsePostmasterFile(text);
}

export const postmasterFile = (dataDirectory: string): string => join(dataDirectory, 'postmaster.pid');
