// Secrets as the source stores them when its operator has switched database encryption on: JSON with the id of a key
// and AES-256-GCM under a key that HKDF-SHA-256 derives from it for the row.
import { createDecipheriv, hkdfSync } from 'node:crypto';
import { Problem } from '../problem/problem.ts';

/** Keys of the source's operator, by id. */
export type SourceKeys = ReadonlyMap<string, Buffer>;

const KEY_BYTES = 32;
const TAG_BYTES = 16;

/** `id:base64url,…` */
export function readSourceKeys(text: string, variable: string): SourceKeys {
  const keys = text.split(',').map((part): [string, Buffer] => {
    const [id = '', key = ''] = part.trim().split(':');
    return [id, Buffer.from(key, 'base64url')];
  });
  if (keys.every(([id, key]) => id !== '' && key.length === KEY_BYTES)) return new Map(keys);
  throw new Problem('IMP-401', 500, `${variable} is not a valid key`, {
    hint: 'Its form is id:key,id:key, each key 32 bytes in base64url.',
  });
}

export const isEncrypted = (text: string): boolean => text.startsWith('{');

/**
 * Returns the text itself if it is not encrypted, or undefined if no key decrypts it. `rowId` is the id that it was
 * encrypted for.
 */
export function openValue(text: string, rowId: string, keys: SourceKeys): string | undefined {
  if (!isEncrypted(text)) return text;
  try {
    const { key_id: id, alg, data, nonce } = JSON.parse(text) as Record<string, string | undefined>;
    const key = keys.get(id ?? '');
    if (key === undefined || alg !== 'aes-gcm-hkdf' || data === undefined || nonce === undefined)
      return undefined;
    const derived = Buffer.from(hkdfSync('sha256', key, '', rowId, KEY_BYTES));
    const sealed = Buffer.from(data, 'base64');
    const decipher = createDecipheriv('aes-256-gcm', derived, Buffer.from(nonce, 'base64'));
    decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
    return Buffer.concat([decipher.update(sealed.subarray(0, -TAG_BYTES)), decipher.final()]).toString();
  } catch {
    // Damaged, or of another key with the same id.
    return undefined;
  }
}
