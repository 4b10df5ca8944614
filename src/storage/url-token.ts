// Tokens inside signed URLs. Their key is derived from the project's secret key and is not a signing key of
// access tokens: such a token is no login, and an access token opens no signed URL.
import { hkdfSync } from 'node:crypto';
import { jwtVerify, SignJWT } from 'jose';
import { invalidSignature, invalidUrlToken } from './problem.ts';

export type UrlScope = 'download' | 'upload';

export type DownloadToken = { readonly transformations?: string | undefined };
export type UploadToken = { readonly owner: string | null; readonly upsert: boolean };

/** Every instance that knows the secret key derives the same one; changing the secret key ends all signed URLs. */
export function deriveUrlKey(secretKey: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secretKey, 'svc storage', 'signed urls', 32));
}

export class UrlTokens {
  readonly #key: Buffer;
  readonly #now: () => Date;

  constructor(key: Buffer, now: () => Date) {
    this.#key = key;
    this.#now = now;
  }

  signDownload(url: string, expiresInSeconds: number, more: DownloadToken = {}): Promise<string> {
    const claims = more.transformations === undefined ? {} : { transformations: more.transformations };
    return this.#sign({ url, scope: 'download', ...claims }, expiresInSeconds);
  }

  signUpload(url: string, expiresInSeconds: number, more: UploadToken): Promise<string> {
    return this.#sign({ url, scope: 'upload', owner: more.owner, upsert: more.upsert }, expiresInSeconds);
  }

  async verifyDownload(token: string, url: string): Promise<DownloadToken & { readonly expiresAt: Date }> {
    const { payload, expiresAt } = await this.#verify(token, url, 'download');
    const { transformations } = payload;
    return { expiresAt, transformations: typeof transformations === 'string' ? transformations : undefined };
  }

  async verifyUpload(token: string, url: string): Promise<UploadToken & { readonly expiresAt: Date }> {
    const { payload, expiresAt } = await this.#verify(token, url, 'upload');
    return {
      expiresAt,
      owner: typeof payload['owner'] === 'string' ? payload['owner'] : null,
      upsert: payload['upsert'] === true,
    };
  }

  #sign(claims: Record<string, unknown>, expiresInSeconds: number): Promise<string> {
    const issuedAt = Math.floor(this.#now().getTime() / 1000);
    return new SignJWT(claims)
      .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
      .setIssuedAt(issuedAt)
      .setExpirationTime(issuedAt + expiresInSeconds)
      .sign(this.#key);
  }

  async #verify(
    token: string,
    url: string,
    scope: UrlScope,
  ): Promise<{ payload: Record<string, unknown>; expiresAt: Date }> {
    const verified = await jwtVerify(token, this.#key, {
      algorithms: ['HS256'],
      requiredClaims: ['exp', 'url', 'scope'],
      currentDate: this.#now(),
    }).catch((cause: unknown) => {
      throw invalidUrlToken(cause instanceof Error ? cause.message : 'invalid token');
    });
    const { payload } = verified;
    if (payload['scope'] !== scope) throw invalidSignature(`Token is not scoped for ${scope}`);
    if (payload['url'] !== url) throw invalidSignature();
    return { payload, expiresAt: new Date((payload.exp ?? 0) * 1000) };
  }
}
