// Users with all that belongs to them: read at the source, put into the form of this product, and staged for the
// comparison with what an earlier run has brought.
import { createHash, randomBytes } from 'node:crypto';
import { hashImportedToken, IMPORTED_COUNTER } from '../auth/sessions/imported-token.ts';
import { checkImportedHash } from '../auth/users/imported-hash.ts';
import type { SecretBox } from '../lib/secret-box.ts';
import { raw, sql } from '../postgres/sql.ts';
import { openValue, type SourceKeys } from './encrypted-value.ts';
import type { Connected } from '../postgres/bulk/one-transaction.ts';
import { openTotpSecret } from './factors.ts';

export type Secrets = {
  readonly sourceKeys: SourceKeys;
  readonly boxes: { readonly sessionKey: SecretBox; readonly totpSecret: SecretBox };
};

export const USER_KINDS = ['user', 'password', 'identity', 'factor', 'session', 'method', 'token'] as const;
export type UserKind = (typeof USER_KINDS)[number];

/** A row of the source as JSON. */
type SourceRow = Readonly<Record<string, unknown>> & { readonly id: string };
/** Columns of a row here, as JSON; bytes are `\x…`. */
type TargetRow = Readonly<Record<string, unknown>>;
/** `sealed` has random parts that differ between runs, so the comparison leaves it out. */
type Converted = { readonly row: TargetRow; readonly sealed?: TargetRow };

type Reading = {
  readonly query: string;
  /** Returns undefined for a row that is not imported. */
  readonly convert: (row: SourceRow, context: Context) => Converted | undefined;
};

type Context = Secrets & {
  /** Sessions that stay behind. */
  readonly leftSessions: Set<unknown>;
};

const BATCH = 2_000;
const SESSION_KEY_BYTES = 32;
/** Substitute for a missing time. */
const UNKNOWN_TIME = '1970-01-01T00:00:00+00:00';

/** Tokens in the older format: those of sessions without a key. */
const TOKENS_OF_SESSION = `from auth.refresh_tokens r
  where r.session_id = s.id and to_jsonb(s) ->> 'refresh_token_hmac_key' is null
    and r.revoked is not true and r.token ~ '^[a-z0-9]{12}$'`;

/** Condition for sessions `s` that a client can continue. */
export const OPEN_SESSION = `to_jsonb(s) ->> 'oauth_client_id' is null and (s.not_after is null or s.not_after > now())
  and (to_jsonb(s) ->> 'refresh_token_hmac_key' is not null or exists (select ${TOKENS_OF_SESSION}))`;

/** Through JSON, because older projects lack some of the columns. */
const READINGS: Readonly<Record<UserKind, Reading>> = {
  user: {
    query: `select to_jsonb(u) || jsonb_build_object('twins', count(*) over (partition by lower(u.email))) as row
      from auth.users u`,
    convert: (row) => ({ row: convertUser(row) }),
  },
  password: {
    query: `select to_jsonb(u) as row from auth.users u where u.encrypted_password <> ''`,
    convert: convertPassword,
  },
  identity: {
    query: `select to_jsonb(i) as row from auth.identities i`,
    convert: (row) => ({
      row: {
        ...pick(row, ['id', 'provider_id', 'user_id', 'identity_data', 'provider', 'last_sign_in_at']),
        ...times(row),
      },
    }),
  },
  factor: {
    query: `select to_jsonb(f) as row from auth.mfa_factors f where factor_type = 'totp' and status = 'verified'`,
    convert: convertFactor,
  },
  session: {
    query: `select to_jsonb(s) || jsonb_build_object('token_made_at',
      (select max(r.created_at) ${TOKENS_OF_SESSION})) as row
      from auth.sessions s where ${OPEN_SESSION}`,
    convert: convertSession,
  },
  method: {
    query: `select to_jsonb(a) as row from auth.mfa_amr_claims a join auth.sessions s on s.id = a.session_id
      where ${OPEN_SESSION}`,
    convert: (row, { leftSessions }) =>
      leftSessions.has(row['session_id'])
        ? undefined
        : { row: { ...pick(row, ['id', 'session_id', 'authentication_method']), ...times(row) } },
  },
  token: {
    query: `select to_jsonb(r) as row from auth.sessions s, lateral (select r.* ${TOKENS_OF_SESSION}) r
      where ${OPEN_SESSION}`,
    convert: (row) => ({
      row: {
        ...pick(row, ['id', 'user_id', 'session_id']),
        ...times(row),
        token: hashImportedToken(String(row['token'])),
        revoked: false,
      },
    }),
  },
};

function convertUser(row: SourceRow): TargetRow {
  const email = textOrNull(row['email']);
  const isOwn = row['is_sso_user'] === true || row['twins'] !== 1;
  return {
    ...pick(row, [
      'id',
      'instance_id',
      'aud',
      'role',
      'email_confirmed_at',
      'invited_at',
      'confirmation_sent_at',
    ]),
    ...pick(row, ['last_sign_in_at', 'is_super_admin', 'phone_confirmed_at', 'banned_until', 'deleted_at']),
    ...times(row),
    // Two addresses that differ in capital letters only cannot both be folded.
    email: isOwn ? email : (email?.toLowerCase() ?? null),
    phone: textOrNull(row['phone']),
    raw_app_meta_data: row['raw_app_meta_data'] ?? {},
    raw_user_meta_data: row['raw_user_meta_data'] ?? {},
    is_sso_user: row['is_sso_user'] ?? false,
    is_anonymous: row['is_anonymous'] ?? false,
    email_proven_at: row['email_confirmed_at'] ?? null,
  };
}

function convertPassword(row: SourceRow, { sourceKeys }: Context): Converted | undefined {
  const hash = openValue(String(row['encrypted_password']), row.id, sourceKeys);
  if (hash === undefined || !isVerifiable(hash)) return undefined;
  return { row: { id: row.id, encrypted_password: hash, password_set_at: times(row).created_at } };
}

function isVerifiable(hash: string): boolean {
  try {
    checkImportedHash(hash);
    return true;
  } catch {
    return false;
  }
}

function convertFactor(row: SourceRow, { sourceKeys, boxes }: Context): Converted | undefined {
  const plain = openTotpSecret({ id: row.id, secret: textOrNull(row['secret']) }, sourceKeys);
  if (plain === undefined) return undefined;
  return {
    row: {
      ...pick(row, ['id', 'user_id', 'friendly_name', 'factor_type', 'status']),
      ...times(row),
      secret: sha256(plain.toString('hex')).toString('hex'),
    },
    sealed: { secret: toBytea(boxes.totpSecret.seal(plain, row.id)) },
  };
}

function convertSession(row: SourceRow, { sourceKeys, boxes, leftSessions }: Context): Converted | undefined {
  const stored = textOrNull(row['refresh_token_hmac_key']);
  const text = stored === null ? undefined : openValue(stored, row.id, sourceKeys);
  if (stored !== null && text === undefined) {
    leftSessions.add(row.id);
    return undefined;
  }
  // Create a key for a session without one. The tokens after the imported one need it.
  const key = text === undefined ? randomBytes(SESSION_KEY_BYTES) : Buffer.from(text, 'base64url');
  return {
    row: {
      ...pick(row, ['id', 'user_id', 'factor_id', 'not_after', 'ip', 'tag']),
      ...times(row),
      aal: row['aal'] ?? 'aal1',
      user_agent: textOrNull(row['user_agent'])?.slice(0, 512) ?? null,
      refreshed_at: row['refreshed_at'] ?? row['token_made_at'] ?? null,
      refresh_token_counter: text === undefined ? IMPORTED_COUNTER : (row['refresh_token_counter'] ?? 0),
      refresh_token_hmac_key: text === undefined ? null : sha256(text).toString('hex'),
    },
    sealed: { refresh_token_hmac_key: toBytea(boxes.sessionKey.seal(key, row.id)) },
  };
}

/** A table with a row for each thing of the source; it ends with the transaction. */
export async function stageUsers(source: Connected, target: Connected, secrets: Secrets): Promise<void> {
  await target.query(
    raw(`
    create temporary table import_stage (kind text, id text, digest bytea, row jsonb, primary key (kind, id))
      on commit drop`),
  );
  const context: Context = { ...secrets, leftSessions: new Set() };
  for (const kind of USER_KINDS) {
    const { query, convert } = READINGS[kind];
    await source.query(raw(`declare import_rows no scroll cursor for select row::text from (${query}) t`));
    for (;;) {
      const rows = await source.query<{ row: string }>(raw(`fetch ${BATCH} from import_rows`));
      if (rows.length === 0) break;
      await stage(
        target,
        kind,
        rows.flatMap(({ row }) => convert(parse(row), context) ?? []),
      );
    }
    await source.query(raw('close import_rows'));
  }
}

async function stage(target: Connected, kind: UserKind, converted: readonly Converted[]): Promise<void> {
  const rows = converted.map(({ row, sealed }) => ({
    id: row['id'],
    digest: toBytea(sha256(JSON.stringify(row))),
    row: { ...row, ...sealed },
  }));
  await target.query(sql`
    insert into pg_temp.import_stage (kind, id, digest, row)
    select ${kind}, id, digest, row
    from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as t (id text, digest bytea, row jsonb)`);
}

/** Metadata may hold numbers that JavaScript cannot: they stay the text that they are. */
function parse(text: string): SourceRow {
  return EXACT_JSON.parse(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined && String(value) !== source
      ? EXACT_JSON.rawJSON(source)
      : value,
  ) as SourceRow;
}

type ExactJson = {
  parse(
    text: string,
    reviver: (key: string, value: unknown, context: { source?: string }) => unknown,
  ): unknown;
  rawJSON(text: string): unknown;
};
// Every supported Node has this API, but the TypeScript library does not declare it yet.
const EXACT_JSON = JSON as unknown as ExactJson;

function times(row: SourceRow): { readonly created_at: unknown; readonly updated_at: unknown } {
  const created = row['created_at'] ?? UNKNOWN_TIME;
  return { created_at: created, updated_at: row['updated_at'] ?? created };
}

const pick = (row: SourceRow, columns: readonly string[]): TargetRow =>
  Object.fromEntries(columns.map((column) => [column, row[column] ?? null]));

const textOrNull = (value: unknown): string | null =>
  typeof value === 'string' && value !== '' ? value : null;

const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest();

const toBytea = (bytes: Buffer): string => `\\x${bytes.toString('hex')}`;
