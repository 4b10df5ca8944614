// Second factors of the source: which move, and why the others do not.
import { Secret } from 'otpauth';
import type { Connected } from '../postgres/bulk/one-transaction.ts';
import { raw } from '../postgres/sql.ts';
import { isEncrypted, openValue, type SourceKeys } from './encrypted-value.ts';
import { ifReadable } from './source.ts';

export type Factor = {
  readonly userId: string;
  readonly type: string;
  /** Readable name: the factor and its user. */
  readonly name: string;
  /** Why it stays behind; undefined when it moves. */
  readonly why: string | undefined;
};

type FactorRow = {
  readonly id: string;
  readonly user_id: string;
  readonly type: string;
  readonly friendly_name: string | null;
  readonly email: string | null;
  readonly secret: string | null;
};

const NO_SUCH_KIND = 'only authenticator apps are second factors here';
const SEALED = 'no key of SVC_IMPORT_ENCRYPTION_KEYS opens it';
const UNREADABLE = 'its secret is in an unknown form';

/** The secret of an authenticator app; undefined when it cannot be read. */
export function openTotpSecret(
  { id, secret }: { readonly id: string; readonly secret: string | null },
  keys: SourceKeys,
): Buffer | undefined {
  const text = secret === null ? '' : openValue(secret, id, keys);
  if (text === undefined || text === '') return undefined;
  try {
    return Buffer.from(Secret.fromBase32(text).buffer);
  } catch {
    return undefined;
  }
}

/** Returns the verified factors, or none if the role cannot read them. */
export async function readFactors(source: Connected, keys: SourceKeys): Promise<readonly Factor[]> {
  const rows = await ifReadable(source, () =>
    source.query<FactorRow>(
      raw(`
      select f.id, f.user_id, f.factor_type::text as type, f.friendly_name, u.email, to_jsonb(f) ->> 'secret' as secret
      from auth.mfa_factors f left join auth.users u on u.id = f.user_id
      where f.status = 'verified' order by f.user_id, f.created_at`),
    ),
  );
  return (rows ?? []).map((row) => ({
    userId: row.user_id,
    type: row.type,
    name:
      `${row.type} factor ${row.friendly_name ? JSON.stringify(row.friendly_name) : row.id} of ` +
      (row.email || row.user_id),
    why: skipReason(row, keys),
  }));
}

function skipReason(row: FactorRow, keys: SourceKeys): string | undefined {
  if (row.type !== 'totp') return NO_SUCH_KIND;
  if (openTotpSecret(row, keys) !== undefined) return undefined;
  return isEncrypted(row.secret ?? '') ? SEALED : UNREADABLE;
}

export const skippedFactors = (factors: readonly Factor[]): Factor[] =>
  factors.filter(({ why }) => why !== undefined);

/** Returns users that lose all second factors, so that a password alone would be sufficient here. */
export function usersWithoutTheirFactor(factors: readonly Factor[]): string[] {
  const kept = new Set(factors.filter(({ why }) => why === undefined).map(({ userId }) => userId));
  return [...new Set(factors.map(({ userId }) => userId))].filter((user) => !kept.has(user));
}
