// Backups that their maker cannot read: each file is encrypted to public keys of age (age-encryption.org). Who has one of
// the private keys reads them with svc, or with any program for age.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { ReadableStream } from 'node:stream/web';
import { Problem } from '../problem/problem.ts';
import { FileMissing, type Target } from './target/target.ts';

/** What an encrypted file is called, after the name of what is in it. */
export const SEALED = '.age';

export type Seal = {
  readonly recipients: readonly string[];
  wrap(source: Readable): Promise<Readable>;
};

/** Reads a file of a backup, by the name that it has without encryption. */
export type OpenFile = (path: string) => Promise<Readable>;

export const openLocal: OpenFile = async (path) => createReadStream(path);

export function openPlain(target: Target): OpenFile {
  return async (path) => await target.read(path);
}

/** Undefined without recipients. */
export async function sealFor(recipients: readonly string[]): Promise<Seal | undefined> {
  if (recipients.length === 0) return undefined;
  const { Encrypter } = await import('age-encryption');
  for (const recipient of recipients) {
    try {
      new Encrypter().addRecipient(recipient);
    } catch (cause) {
      // Somebody may have named the private key: it is not repeated.
      throw new Problem('bad_recipient', 400, 'What --encrypt-to names is no public key of age', {
        hint: 'It begins with age1…; age-keygen makes a pair and prints it.',
        cause,
      });
    }
  }
  return {
    recipients: recipients.toSorted(),
    async wrap(source) {
      const encrypter = new Encrypter();
      for (const recipient of recipients) encrypter.addRecipient(recipient);
      return fromWeb(await encrypter.encrypt(toWeb(source)));
    },
  };
}

/** `file`: as age-keygen writes it, one key for each line. */
export async function openSealed(target: Target, file: string): Promise<OpenFile> {
  const { Decrypter } = await import('age-encryption');
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw badIdentity(file, 'cannot be read', cause);
  });
  const keys = text.split('\n').flatMap((line) => (/^\s*(?:#|$)/.test(line) ? [] : [line.trim()]));
  if (keys.length === 0) throw badIdentity(file, 'has no key');
  const decrypter = new Decrypter();
  for (const key of keys) {
    try {
      decrypter.addIdentity(key);
    } catch (cause) {
      throw badIdentity(file, 'is no private key of age', cause);
    }
  }
  return async (path) => {
    try {
      return fromWeb(await decrypter.decrypt(toWeb(await target.read(`${path}${SEALED}`))));
    } catch (cause) {
      if (cause instanceof FileMissing) throw cause;
      throw new Problem('backup_sealed', 500, `No key of ${file} opens this backup`, {
        hint: 'It takes the private key of one of the recipients, which svc backup list names.',
        cause,
      });
    }
  };
}

function badIdentity(file: string, what: string, cause?: unknown): Problem {
  return new Problem('bad_identity', 400, `${file} ${what}`, {
    hint: 'Name the file that age-keygen wrote: its keys begin with AGE-SECRET-KEY-.',
    cause,
  });
}

/** Where files for these recipients are kept apart: what was encrypted for others cannot be used again. */
export function storeFor(recipients: readonly string[]): string {
  if (recipients.length === 0) return 'blobs';
  return `blobs-${createHash('sha256').update(recipients.join('\n')).digest('hex').slice(0, 12)}`;
}

function toWeb(source: Readable): globalThis.ReadableStream<Uint8Array> {
  return ReadableStream.from(source);
}

function fromWeb(stream: globalThis.ReadableStream<Uint8Array>): Readable {
  return Readable.fromWeb(stream);
}
