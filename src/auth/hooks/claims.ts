// Checks the claims that a custom_access_token hook returns. A hook adds claims; it cannot give the token another
// user, another session or more rights than svc grants.

export type TokenClaims = Readonly<Record<string, unknown>>;

/** Maximum number of bytes by which a hook can enlarge the claims. Every request sends the token in a header. */
export const MAX_ADDED_BYTES = 4096;

const REQUIRED = [
  'aud',
  'exp',
  'iat',
  'sub',
  'email',
  'phone',
  'role',
  'aal',
  'session_id',
  'is_anonymous',
] as const;

const UNCHANGEABLE = ['iss', 'sub', 'iat', 'session_id', 'aal', 'amr', 'is_anonymous', 'restricted'] as const;

/** `service_role` is missing on purpose: a mistake in a hook must not open every table. */
const ROLES: ReadonlySet<unknown> = new Set(['anon', 'authenticated']);

export type ClaimsCheck =
  | { readonly claims: TokenClaims & { readonly exp: number } }
  /** Why the claims are refused. Names the claim, never its value. */
  | { readonly fault: string };

/** Compares the claims of the hook with those that svc would sign without it. */
export function checkClaims(original: TokenClaims, returned: TokenClaims): ClaimsCheck {
  const missing = REQUIRED.find((name) => returned[name] === undefined || returned[name] === null);
  if (missing !== undefined) return { fault: `the claim ${missing} is missing` };
  const changed = UNCHANGEABLE.find(
    (name) => returned[name] !== undefined && !isSameJson(returned[name], original[name]),
  );
  if (changed !== undefined) return { fault: `the claim ${changed} must not be changed` };
  const { exp, role } = returned;
  if (!isWholeNumber(exp) || exp > Number(original['exp']) || exp <= Number(original['iat']))
    return { fault: 'the claim exp can only be an earlier time, after iat' };
  if (!ROLES.has(role)) return { fault: 'the claim role can only be anon or authenticated' };
  const wrong = findWrongType(returned);
  if (wrong !== undefined) return { fault: wrong };
  // A hook that returns a reduced token must not lift the restriction of a session.
  const restricted = original['restricted'] === undefined ? {} : { restricted: original['restricted'] };
  const claims = { ...returned, ...restricted, exp };
  if (jsonBytes(claims) - jsonBytes(original) > MAX_ADDED_BYTES)
    return { fault: `the claims are more than ${MAX_ADDED_BYTES} bytes larger than before` };
  return { claims };
}

function findWrongType({ aud, email, phone, nbf }: TokenClaims): string | undefined {
  const audiences: unknown[] = Array.isArray(aud) ? aud : [aud];
  if (!audiences.every((audience) => typeof audience === 'string'))
    return 'the claim aud must be a string or a list of strings';
  if (typeof email !== 'string') return 'the claim email must be a string';
  if (typeof phone !== 'string') return 'the claim phone must be a string';
  return nbf === undefined || isWholeNumber(nbf) ? undefined : 'the claim nbf must be a whole number';
}

function isWholeNumber(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value);
}

function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}

/** Compares values regardless of the order of keys, because jsonb sorts them. */
function isSameJson(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const [inA, inB] = [new Map(Object.entries(a)), new Map(Object.entries(b))];
  return (
    inA.size === inB.size && [...inA].every(([key, value]) => inB.has(key) && isSameJson(value, inB.get(key)))
  );
}
