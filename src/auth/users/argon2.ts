// argon2 from the library where its native half was installed, else from Node itself, which has it from 24.7 on. Both write
// and read the same text.
import * as nodeCrypto from 'node:crypto';
import { resolvePackage } from '../../lib/own-files.ts';

export type Argon2Options = {
  /** In KiB. */
  readonly memoryCost: number;
  readonly timeCost: number;
  readonly parallelism: number;
};

type Argon2 = {
  /** argon2id, version 19, as `$argon2id$v=19$m=…,t=…,p=…$salt$hash`. */
  hash(password: string, options: Argon2Options): Promise<string>;
  verify(hash: string, password: string): Promise<boolean>;
};

const ARGON2ID = 2;
const NATIVE_SUFFIXES = ['', '-gnu', '-musl', '-msvc', '-gnueabihf'];

export type Resolve = (name: string) => string;

/** npm installs the native part of such a library as an optional package. Only looked for, not loaded. */
export function hasNativeHalf(library: string, resolve: Resolve = resolvePackage): boolean {
  const platform = `${process.platform}-${process.arch}`;
  return NATIVE_SUFFIXES.some((suffix) => {
    try {
      return resolve(`${library}-${platform}${suffix}`) !== '';
    } catch {
      return false;
    }
  });
}

// Typed as always there.
const ofNode: typeof nodeCrypto.argon2 | undefined = nodeCrypto.argon2;

export const hasArgon2 = (resolve?: Resolve, own = ofNode !== undefined): boolean =>
  own || hasNativeHalf('@node-rs/argon2', resolve);

let loading: Promise<Argon2> | undefined;

/** Loaded at the first password: the library costs 10 MB that a server without passwords need not hold. */
export function argon2(): Promise<Argon2> {
  loading ??= hasNativeHalf('@node-rs/argon2') ? library() : Promise.resolve(NODE);
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
