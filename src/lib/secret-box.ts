// Secrets at rest: AES-256-GCM with a key derived by HKDF-SHA-256. The context (for example a row id) is
// authenticated too, so that a sealed value cannot be moved to another row.
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

const VERSION = 1;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

export type SecretBox = {
  seal(plain: Buffer, context: string): Buffer;
  /** Undefined when the box has another key, another context, or was changed. */
  open(sealed: Buffer, context: string): Buffer | undefined;
};

export function secretBox(secret: string, purpose: string): SecretBox {
  const key = Buffer.from(hkdfSync('sha256', secret, 'svc secret box', purpose, 32));
  return {
    seal(plain, context) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv('aes-256-gcm', key, nonce);
      cipher.setAAD(Buffer.from(context));
      const body = Buffer.concat([cipher.update(plain), cipher.final()]);
      return Buffer.concat([Buffer.from([VERSION]), nonce, cipher.getAuthTag(), body]);
    },
    open(sealed, context) {
      if (sealed.length < 1 + NONCE_BYTES + TAG_BYTES || sealed[0] !== VERSION) return undefined;
      const nonce = sealed.subarray(1, 1 + NONCE_BYTES);
      const decipher = createDecipheriv('aes-256-gcm', key, nonce);
      decipher.setAAD(Buffer.from(context));
      decipher.setAuthTag(sealed.subarray(1 + NONCE_BYTES, 1 + NONCE_BYTES + TAG_BYTES));
      try {
        return Buffer.concat([
          decipher.update(sealed.subarray(1 + NONCE_BYTES + TAG_BYTES)),
          decipher.final(),
        ]);
      } catch {
        // GCM reports only a failed authentication, not which of the three reasons applies.
        return undefined;
      }
    },
  };
}
