// TOTP factors (RFC 6238): creates the secret, shows it once, and checks codes. A code works once: the newest accepted
// time step is stored, and no code of that step or an earlier one is accepted again.
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { Secret, TOTP } from 'otpauth';
import { renderSVG } from 'uqr';
import type { Queryable } from '../../postgres/owner-database.ts';
import { sql } from '../../postgres/sql.ts';
import type { SecretBox } from '../../lib/secret-box.ts';

const SECRET_BYTES = 20;
const PERIOD_SECONDS = 30;
/** Accepted steps before and after the current one, for clocks that differ. */
const WINDOW = 1;

export const CHALLENGE_LIFETIME_MS = 300_000;
export const MAX_FACTORS = 10;

export function newTotpSecret(): Buffer {
  return randomBytes(SECRET_BYTES);
}

export type TotpDisplay = { readonly qr_code: string; readonly secret: string; readonly uri: string };

export function displayTotp(secret: Buffer, issuer: string, account: string): TotpDisplay {
  const base32 = new Secret({ buffer: toArrayBuffer(secret) }).base32;
  const label = `${encodeURIComponent(issuer)}:${encodeURIComponent(account)}`;
  const uri = `otpauth://totp/${label}?algorithm=SHA1&digits=6&issuer=${encodeURIComponent(issuer)}&period=${PERIOD_SECONDS}&secret=${base32}`;
  return { qr_code: qrCode(uri), secret: base32, uri };
}

/**
 * Returns raw SVG. The client puts it after `data:image/svg+xml;utf-8,` without encoding, where `#` would end
 * the URL and
 * `%` would begin an escape.
 */
function qrCode(text: string): string {
  return renderSVG(text, { ecc: 'M', border: 4, blackColor: 'black', whiteColor: 'white' }).replaceAll(
    /\s*\n\s*/g,
    '',
  );
}

/** Returns the time step of a code, or undefined if the code is wrong. */
export function matchTotp(secret: Buffer, code: string, now: Date): number | undefined {
  if (!/^\d{6}$/.test(code)) return undefined;
  const totp = new TOTP({ secret: new Secret({ buffer: toArrayBuffer(secret) }), period: PERIOD_SECONDS });
  const current = Math.floor(now.getTime() / 1000 / PERIOD_SECONDS);
  let matched: number | undefined;
  // Always compares every step, so that the duration does not reveal which step matched.
  for (let step = current - WINDOW; step <= current + WINDOW; step++) {
    const expected = totp.generate({ timestamp: step * PERIOD_SECONDS * 1000 });
    if (timingSafeEqual(Buffer.from(expected), Buffer.from(code))) matched = step;
  }
  return matched;
}

/** Returns false if this step or a later one was accepted before. Of parallel calls only one gets true. */
export async function spendStep(db: Queryable, factorId: string, step: number): Promise<boolean> {
  const [spent] = await db.query(sql`
    update auth.mfa_factors set last_used_step = ${step} where id = ${factorId} and last_used_step < ${step}
      returning id`);
  return spent !== undefined;
}

/** Returns undefined if the keyring that sealed the secret no longer exists. */
export async function openTotpSecret(
  box: SecretBox,
  db: Queryable,
  factorId: string,
): Promise<Buffer | undefined> {
  const [row] = await db.query<{ secret: Buffer | null }>(
    sql`select secret from auth.mfa_factors where id = ${factorId}`,
  );
  return row?.secret ? box.open(row.secret, factorId) : undefined;
}

/** Removes the factor. Sessions that reached aal2 with it return to aal1. */
export async function dropFactor(db: Queryable, factorId: string, now: Date): Promise<void> {
  await db.query(sql`
    with lowered as (
      update auth.sessions set aal = 'aal1', factor_id = null, updated_at = ${now} where factor_id = ${factorId}
        returning id
    ), forgotten as (
      delete from auth.mfa_amr_claims where session_id in (select id from lowered) and authentication_method = 'totp'
    )
    delete from auth.mfa_factors where id = ${factorId}`);
}

function toArrayBuffer(bytes: Buffer): ArrayBuffer {
  return new Uint8Array(bytes).buffer;
}
