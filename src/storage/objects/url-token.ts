// Tokens in signed URLs. Their key is derived from the secret key and differs from the signing keys of access
// tokens, so that neither kind of token is accepted as the other.
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { jwtVerify, SignJWT, type JWTPayload } from 'jose';
import type { DatabaseRole } from '../../postgres/pool/caller-pool.ts';
import { invalidSignature, invalidUrlToken } from '../problem.ts';

type UrlScope = 'download' | 'upload';

export type DownloadToken = { readonly transformations: string | undefined; readonly expiresAt: Date };
/** Creator of an upload link. Using the link checks the creator's permission again. */
type LinkMaker = { readonly role: DatabaseRole; readonly claims: string };
type UploadToken = {
  readonly owner: string | null;
  readonly upsert: boolean;
  readonly maker: LinkMaker;
};

/** The same on every instance with this secret key; changing the secret key ends all signed URLs. */
export function deriveUrlKey(secretKey: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secretKey, 'svc storage', 'signed urls', 32));
}

const IV_BYTES = 12;
const TAG_BYTES = 16;
/** Limit of decompression. */
const MAX_MAKER_BYTES = 256 * 1024;

export class UrlTokens {
  readonly #key: Buffer;
  readonly #sealKey: Buffer;
  readonly #now: () => Date;

  constructor(key: Buffer, now: () => Date) {
    this.#key = key;
    this.#sealKey = Buffer.from(hkdfSync('sha256', key, 'svc storage', 'makers of upload links', 32));
    this.#now = now;
  }

  signDownload(url: string, expiresInSeconds: number, transformations?: string): Promise<string> {
    return this.#sign({ url, scope: 'download', transformations }, expiresInSeconds);
  }

  signUpload(url: string, expiresInSeconds: number, { owner, upsert, maker }: UploadToken): Promise<string> {
    return this.#sign({ url, scope: 'upload', owner, upsert, by: this.#seal(maker, url) }, expiresInSeconds);
  }

  async verifyDownload(token: string, url: string): Promise<DownloadToken> {
    const { transformations, exp = 0 } = await this.#verify(token, url, 'download');
    return {
      transformations: typeof transformations === 'string' ? transformations : undefined,
      expiresAt: new Date(exp * 1000),
    };
  }

  async verifyUpload(token: string, url: string): Promise<UploadToken> {
    const payload = await this.#verify(token, url, 'upload');
    return {
      owner: typeof payload['owner'] === 'string' ? payload['owner'] : null,
      upsert: payload['upsert'] === true,
      maker: this.#open(payload['by'], url),
    };
  }

  /** Encrypted, because links are passed on and claims contain an email address. */
  #seal({ role, claims }: LinkMaker, url: string): string {
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv('aes-256-gcm', this.#sealKey, iv).setAAD(Buffer.from(url));
    const text = cipher.update(deflateRawSync(JSON.stringify([role, claims])));
    return Buffer.concat([iv, text, cipher.final(), cipher.getAuthTag()]).toString('base64url');
  }

  #open(sealed: unknown, url: string): LinkMaker {
    // Links of earlier versions did not name their maker.
    if (typeof sealed !== 'string')
      throw invalidSignature('The link is of an earlier version; make a new one');
    const bytes = Buffer.from(sealed, 'base64url');
    const decipher = createDecipheriv('aes-256-gcm', this.#sealKey, bytes.subarray(0, IV_BYTES))
      .setAAD(Buffer.from(url))
      .setAuthTag(bytes.subarray(-TAG_BYTES));
    const text = Buffer.concat([decipher.update(bytes.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()]);
    const [role, claims] = JSON.parse(
      inflateRawSync(text, { maxOutputLength: MAX_MAKER_BYTES }).toString('utf8'),
    ) as [DatabaseRole, string];
    return { role, claims };
  }

  #sign(claims: Record<string, unknown>, expiresInSeconds: number): Promise<string> {
    const issuedAt = Math.floor(this.#now().getTime() / 1000);
    return new SignJWT(claims)
      .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
      .setIssuedAt(issuedAt)
      .setExpirationTime(issuedAt + expiresInSeconds)
      .sign(this.#key);
  }

  async #verify(token: string, url: string, scope: UrlScope): Promise<JWTPayload> {
    const { payload } = await jwtVerify(token, this.#key, {
      algorithms: ['HS256'],
      requiredClaims: ['exp', 'url', 'scope'],
      currentDate: this.#now(),
    }).catch((cause: unknown) => {
      throw invalidUrlToken(cause instanceof Error ? cause.message : 'invalid token');
    });
    if (payload['scope'] !== scope) throw invalidSignature(`Token is not scoped for ${scope}`);
    if (payload['url'] !== url) throw invalidSignature();
    return payload;
  }
}
