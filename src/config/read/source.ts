// Reads svc.yaml from a file, an https:// URL or an s3:// object. Locations can contain credentials (a signed URL,
// user:password@). Names in messages and logs do not contain them.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { Mode } from '../mode.ts';
import { Problem } from '../../problem/problem.ts';
import { closest } from '../../lib/text/closest-word.ts';

export type Source = {
  /** Name in messages: a path relative to the working directory, or a URL. */
  readonly name: string;
  /** Base of relative paths in the file. Undefined for a remote file. */
  readonly directory: string | undefined;
  /** Base of relative data directories, if it differs from `directory`. */
  readonly dataDirectory?: string | undefined;
  /**
   * The file as written, with unsubstituted `${VAR}` references. For a configuration of several files: their merged
   * text, including the overlay, which the migration history stores.
   */
  readonly text: string;
  /** Selects the overlay. No overlay is applied if undefined. */
  readonly mode?: Mode | undefined;
  /** Path of the applied overlay, relative to `directory`. Set after loading. */
  readonly overlay?: string | undefined;
  /** Paths of included files, relative to `directory`. Set after loading. */
  readonly parts?: readonly string[] | undefined;
  /** Texts that replace included files, by path. They serve to validate edits before they are written. */
  readonly drafts?: ReadonlyMap<string, string> | undefined;
  /** Time of the last change of a remote file, if its server sends it. */
  readonly modifiedAt?: Date | undefined;
};

const DEFAULT_NAMES = ['svc.yaml', 'svc.yml'];
const FETCH_TIMEOUT_MS = 15_000;
/** Above the limit in document.ts, whose error message is clearer. */
const MAX_BYTES = 8 * 1024 * 1024;

export type ReadOptions = {
  /** Timeout for a remote file. */
  readonly timeoutMs?: number | undefined;
};

/** Reads the text of the configuration. Without a location, reads svc.yaml in the working directory. */
export async function readSource(
  location: string | undefined,
  workingDirectory: string,
  { timeoutMs = FETCH_TIMEOUT_MS }: ReadOptions = {},
): Promise<Source> {
  if (location === undefined) return readLocal(findDefault(workingDirectory), workingDirectory);
  if (!isRemote(location)) return readLocal(location, workingDirectory);
  const { address, sha256 } = splitHash(location);
  const name = publicName(address);
  const signal = AbortSignal.timeout(timeoutMs);
  try {
    const { body, modifiedAt } = /^s3:/i.test(address)
      ? await openS3(address, signal)
      : await openHttp(address, name, signal);
    return { name, directory: undefined, text: await readText(name, body, sha256), modifiedAt };
  } catch (cause) {
    if (cause instanceof Problem) throw cause;
    const reason = signal.aborted ? `no response within ${timeoutMs / 1000} seconds` : describeError(cause);
    throw unreadable(name, reason, cause);
  }
}

/** Splits off `#<sha256>`, which pins the content as in functions_bundle. */
function splitHash(location: string): { address: string; sha256: string | undefined } {
  const [, address, sha256] = /^([^#]*)#([0-9a-f]{64})$/i.exec(location) ?? [];
  if (address !== undefined && sha256 !== undefined) return { address, sha256: sha256.toLowerCase() };
  if (location.includes('#')) {
    throw new Problem('bad_location', 500, `the part after # in ${publicName(location)} is not a SHA-256`, {
      hint: 'End a pinned location with # and the 64 hexadecimal digits that sha256sum prints.',
    });
  }
  return { address: location, sha256: undefined };
}

export function isRemote(location: string | undefined): boolean {
  return location !== undefined && /^(s3|https?):\/\//i.test(location);
}

function findDefault(directory: string): string {
  const found = DEFAULT_NAMES.find((name) => existsSync(join(directory, name)));
  if (found) return found;
  throw new Problem('no_config', 500, `There is no svc.yaml in ${directory}`, {
    hint: 'Create one with `svc init`, or name it with --config <file>.',
  });
}

function readLocal(location: string, workingDirectory: string): Source {
  const path = resolve(workingDirectory, location);
  const stats = statSync(path, { throwIfNoEntry: false });
  if (!stats) {
    throw new Problem('no_config', 500, `There is no file ${location}`, {
      hint: closest(location, DEFAULT_NAMES) ? 'Did you mean svc.yaml?' : `Looked for ${path}.`,
    });
  }
  if (stats.isDirectory()) {
    throw new Problem('no_config', 500, `${location} is a directory`, {
      hint: `Name the file: --config ${join(location, 'svc.yaml')}`,
    });
  }
  if (stats.size > MAX_BYTES) throw unreadable(location, 'it is too large for a configuration');
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch (cause) {
    throw unreadable(location, describeError(cause), cause);
  }
  return { name: location, directory: dirname(path), text: decodeSource(location, bytes) };
}

type OpenFile = { readonly body: AsyncIterable<Uint8Array>; readonly modifiedAt: Date | undefined };

async function openHttp(location: string, name: string, signal: AbortSignal): Promise<OpenFile> {
  if (!URL.canParse(location))
    throw new Problem('bad_location', 500, `${name} is not a URL`, {
      hint: 'Write a URL such as https://host/svc.yaml.',
    });
  const url = new URL(location);
  assertEncrypted(url);
  const { username, password } = url;
  [url.username, url.password] = ['', ''];
  const credentials = Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`);
  const headers: Record<string, string> =
    username === '' ? {} : { authorization: `Basic ${credentials.toString('base64')}` };
  const response = await fetch(url, { signal, headers, redirect: 'follow' });
  // A redirect may lead to an unencrypted URL.
  assertEncrypted(new URL(response.url));
  if (!response.ok) throw unreadable(name, `the server responded with status ${response.status}`);
  return { body: response.body ?? nothing(), modifiedAt: parseDate(response.headers.get('last-modified')) };
}

function assertEncrypted(url: URL): void {
  if (url.protocol !== 'http:' || /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(url.hostname)) return;
  throw new Problem('insecure_config', 500, `${url.origin} is not encrypted`, {
    hint: 'Use https://, because a configuration contains permissions.',
  });
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

function parseDate(text: string | null): Date | undefined {
  const date = new Date(text ?? '');
  return Number.isNaN(date.getTime()) ? undefined : date;
}

async function openS3(location: string, signal: AbortSignal): Promise<OpenFile> {
  const match = /^s3:\/\/([^/]+)\/(.+)$/i.exec(location);
  if (!match)
    throw new Problem('bad_location', 500, `${location} does not name an object`, {
      hint: 'Write a location such as s3://bucket/path/svc.yaml.',
    });
  // Loaded on demand: the SDK is larger than all other modules together.
  const { S3Client, GetObjectCommand } = await import('@aws-sdk/client-s3');
  const client = new S3Client({ forcePathStyle: true });
  const command = new GetObjectCommand({ Bucket: match[1], Key: match[2] });
  const answer = await client.send(command, { abortSignal: signal }).catch((cause: unknown) => {
    client.destroy();
    throw cause;
  });
  async function* read(): AsyncGenerator<Uint8Array> {
    try {
      if (answer.Body) yield* answer.Body.transformToWebStream();
    } finally {
      client.destroy();
    }
  }
  return { body: read(), modifiedAt: answer.LastModified };
}

async function readText(
  name: string,
  chunks: AsyncIterable<Uint8Array>,
  sha256: string | undefined,
): Promise<string> {
  const read: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of chunks) {
    bytes += chunk.length;
    if (bytes > MAX_BYTES) throw unreadable(name, 'it is too large for a configuration');
    read.push(chunk);
  }
  const whole = Buffer.concat(read);
  const actual = createHash('sha256').update(whole).digest('hex');
  if (sha256 !== undefined && actual !== sha256) {
    throw new Problem('config_hash_mismatch', 500, `${name} is not the file that --config pins`, {
      details: `its SHA-256 is ${actual}, and --config requires ${sha256}`,
      hint: 'Write the hash of the file to serve. The current file was not used.',
    });
  }
  return decodeSource(name, whole);
}

export function decodeSource(name: string, bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw unreadable(name, 'it is not UTF-8 text', cause);
  }
}

/** Removes user, password and query, which may contain secrets. */
function publicName(location: string): string {
  if (!URL.canParse(location) || /^s3:/i.test(location)) return location.replace(/[?#].*$/s, '');
  const { origin, pathname } = new URL(location);
  return `${origin}${pathname}`;
}

function describeError(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  // fetch throws a generic "fetch failed". Its cause has the reason.
  return cause.cause instanceof Error ? cause.cause.message : cause.message;
}

function unreadable(name: string, reason: string, cause?: unknown): Problem {
  return new Problem('unreadable_config', 500, `Cannot read ${name}: ${reason}`, {
    cause,
    hint: /^s3:/i.test(name)
      ? 'Credentials and region come from the AWS variables of the environment ' +
        '(AWS_ACCESS_KEY_ID, AWS_REGION, AWS_ENDPOINT_URL …).'
      : /^https?:/i.test(name)
        ? 'Check the URL, and that this machine can reach it.'
        : 'Check the file and its permissions.',
  });
}
