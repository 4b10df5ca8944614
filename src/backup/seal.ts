// Encryption of backups with public keys of age (age-encryption.org). Only owners of a private key can read them,
// with svc or any other age program.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { ReadableStream } from 'node:stream/web';
import { Problem } from '../problem/problem.ts';
import { FileMissing, type Target } from './target/target.ts';

/** Suffix of encrypted files. */
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
      // Do not repeat the text: it may be a private key.
      throw new Problem('bad_recipient', 400, 'The value of --encrypt-to is not an age public key', {
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

/** Opens encrypted files. `file` is the output of age-keygen, with one key per line. */
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
      throw badIdentity(file, 'is not an age private key', cause);
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

function badIdentity(file: string, reason: string, cause?: unknown): Problem {
  return new Problem('bad_identity', 400, `${file} ${reason}`, {
    hint: 'Name the file that age-keygen wrote: its keys begin with AGE-SECRET-KEY-.',
    cause,
  });
}

/**
 * Returns the folder for files encrypted to these recipients. Files encrypted to other recipients cannot be reused.
 */
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
