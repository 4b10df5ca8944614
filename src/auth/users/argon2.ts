// argon2 from the library if its native part is installed, else from Node, which has it since 24.7. Both write and read
// the same text.
import * as nodeCrypto from 'node:crypto';
import { resolvePackage } from '../../lib/package-files.ts';

export type Argon2Options = {
  /** Memory in KiB. */
  readonly memoryCost: number;
  readonly timeCost: number;
  readonly parallelism: number;
};

type Argon2 = {
  /** Returns argon2id, version 19, as `$argon2id$v=19$m=…,t=…,p=…$salt$hash`. */
  hash(password: string, options: Argon2Options): Promise<string>;
  verify(hash: string, password: string): Promise<boolean>;
};

const ARGON2ID = 2;
const NATIVE_SUFFIXES = ['', '-gnu', '-musl', '-msvc', '-gnueabihf'];

export type Resolve = (name: string) => string;

/** Returns whether npm has installed the native part of a library, an optional package. Does not load it. */
export function hasNativePart(library: string, resolve: Resolve = resolvePackage): boolean {
  const platform = `${process.platform}-${process.arch}`;
  return NATIVE_SUFFIXES.some((suffix) => {
    try {
      return resolve(`${library}-${platform}${suffix}`) !== '';
    } catch {
      return false;
    }
  });
}

// Older versions of Node do not have it, although the types do.
const nodeArgon2: typeof nodeCrypto.argon2 | undefined = nodeCrypto.argon2;

export const hasArgon2 = (resolve?: Resolve, isInNode = nodeArgon2 !== undefined): boolean =>
  isInNode || hasNativePart('@node-rs/argon2', resolve);

let loading: Promise<Argon2> | undefined;

/** Returns the implementation, loaded with the first password: the library costs 10 MB. */
export function argon2(): Promise<Argon2> {
  loading ??= hasNativePart('@node-rs/argon2') ? library() : Promise.resolve(NODE);
  return loading;
}

async function library(): Promise<Argon2> {
  const { hash, verify } = await import('@node-rs/argon2');
  return {
    hash: (password, options) => {
      const settings = { algorithm: ARGON2ID, ...options };
      return hash(password, settings);
    },
    verify,
  };
}

const SALT_BYTES = 16;
const TAG_BYTES = 32;
const PHC = /^\$(argon2id?)\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/;
const unpadded = (bytes: Buffer): string => bytes.toString('base64').replace(/=+$/, '');

export const NODE: Argon2 = {
  async hash(password, { memoryCost, timeCost, parallelism }) {
    const nonce = nodeCrypto.randomBytes(SALT_BYTES);
    const cost = { memory: memoryCost, passes: timeCost, parallelism };
    const tag = await derive('argon2id', { message: password, nonce, tagLength: TAG_BYTES, ...cost });
    return `$argon2id$v=19$m=${memoryCost},t=${timeCost},p=${parallelism}$${unpadded(nonce)}$${unpadded(tag)}`;
  },
  async verify(hash, password) {
    const [, kind, memory, passes, parallelism, salt = '', tag = ''] = PHC.exec(hash) ?? [];
    if (kind === undefined) throw new Error('not a hash of argon2i or argon2id, version 19');
    const expected = Buffer.from(tag, 'base64');
    const made = await derive(kind === 'argon2id' ? 'argon2id' : 'argon2i', {
      message: password,
      nonce: Buffer.from(salt, 'base64'),
      memory: Number(memory),
      passes: Number(passes),
      parallelism: Number(parallelism),
      tagLength: expected.length,
    });
    return nodeCrypto.timingSafeEqual(made, expected);
  },
};

function derive(
  kind: 'argon2i' | 'argon2id',
  parameters: Parameters<typeof nodeCrypto.argon2>[1],
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    nodeCrypto.argon2(kind, parameters, (error, tag) => (error ? reject(error) : resolve(tag)));
  });
}
