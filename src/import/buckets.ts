// Buckets of the source with their policies, as `storage` of the file. There one table has the policies of all buckets,
// and most begin with the bucket they are about; here each bucket has its own.
import { pulledPolicy } from '../migrate/commands/pull.ts';
import type { LivePolicy } from '../migrate/schema/live/live-schema.ts';
import { scanSql } from '../lib/sql/sql-text.ts';
import { raw } from '../postgres/sql.ts';
import { isBucketName } from '../storage/objects/object-path.ts';
import type { Connected } from '../postgres/bulk/one-transaction.ts';
import { ifReadable } from './source.ts';

type Node = Record<string, unknown>;

export type SourceBucket = {
  readonly id: string;
  readonly public: boolean | null;
  readonly limit: number | null;
  readonly types: readonly string[] | null;
  readonly type: string | null;
};

/** Through JSON, because older projects lack some of the columns. */
export async function readBuckets(source: Connected): Promise<readonly SourceBucket[]> {
  const buckets = await ifReadable(source, () =>
    source.query<SourceBucket>(
      raw(`
      select id, (row ->> 'public')::boolean as public, (row ->> 'file_size_limit')::float8 as limit,
        row -> 'allowed_mime_types' as types, row ->> 'type' as type
      from (select id, to_jsonb(b) as row from storage.buckets b) b order by id`),
    ),
  );
  return buckets ?? [];
}

const MB = 1024 * 1024;
const TYPE = /^[\w.+-]+\/(?:\*|[\w.+-]+)$/;

/** Returns the key `storage`. `left` receives a message for each part that svc.yaml cannot express. */
export function storageKey(
  buckets: readonly SourceBucket[],
  policies: readonly LivePolicy[],
  left: string[],
): Node {
  const taken = buckets.filter(({ id, type }) => {
    if (type !== null && type !== 'STANDARD')
      left.push(`bucket ${id}: there are no ${type.toLowerCase()} buckets here`);
    else if (!isBucketName(id)) left.push(`bucket ${id}: a bucket here cannot have this name`);
    else return true;
    return false;
  });
  const rules = new Map(taken.map(({ id }): [string, Node[]] => [id, []]));
  for (const policy of policies) {
    const { about, within } = findPolicyBuckets(policy);
    const [said] = pulledPolicy(within, { grantedToOthers: false }, left);
    if (said === undefined) continue;
    for (const id of about ?? rules.keys()) {
      const list = rules.get(id);
      if (list) list.push(said);
      else left.push(`policy ${policy.label}: there is no bucket ${id}`);
    }
  }
  return Object.fromEntries(taken.map((bucket) => [bucket.id, toBucket(bucket, rules.get(bucket.id), left)]));
}

function toBucket(bucket: SourceBucket, rls: readonly Node[] = [], left: string[]): Node {
  const types = (bucket.types ?? []).filter((type) => type !== '*/*');
  const known = types.filter((type) => TYPE.test(type));
  for (const type of types)
    if (!known.includes(type)) left.push(`bucket ${bucket.id}: ${type} is not a supported file type`);
  return {
    ...(bucket.public === true ? { public: true } : {}),
    ...(bucket.limit === null || bucket.limit <= 0 ? {} : { max_size: renderSize(bucket.limit) }),
    ...(known.length === 0 ? {} : { types: known }),
    rls,
  };
}

const renderSize = (bytes: number): string => (bytes % MB === 0 ? `${bytes / MB}MB` : `${bytes}B`);

type Place = {
  /** Undefined for all. */
  readonly about: readonly string[] | undefined;
  /** The policy without its condition on the bucket. */
  readonly within: LivePolicy;
};

/**
 * Returns the buckets that a policy applies to. A policy with a separate condition on `bucket_id` applies to the
 * named buckets, any other policy to all.
 */
export function findPolicyBuckets(policy: LivePolicy): Place {
  const using = policy.using === null ? undefined : splitBucketCondition(policy.using);
  const check = policy.check === null ? undefined : splitBucketCondition(policy.check);
  const about = using?.buckets ?? check?.buckets;
  const isOne = [using, check].every((part) => part === undefined || sameNames(part.buckets, about));
  if (about === undefined || !isOne) return { about: undefined, within: policy };
  return { about, within: { ...policy, using: using?.rest ?? null, check: check?.rest ?? null } };
}

const sameNames = (
  names: readonly string[] | undefined,
  otherNames: readonly string[] | undefined,
): boolean => names?.join('\0') === otherNames?.join('\0');

type Taken = { readonly buckets: readonly string[] | undefined; readonly rest: string };

/** Separates the condition on the bucket. The server prints each operand of an AND in its own parentheses. */
function splitBucketCondition(printed: string): Taken {
  const conditions = conjuncts(printed);
  const found = conditions.findIndex((condition) => namedBuckets(condition) !== undefined);
  if (found === -1) return { buckets: undefined, rest: printed };
  const rest = conditions.filter((_, index) => index !== found);
  return {
    buckets: namedBuckets(conditions[found] ?? ''),
    rest: rest.length === 0 ? 'true' : rest.length === 1 ? (rest[0] ?? '') : `(${rest.join(' AND ')})`,
  };
}

const STRING = String.raw`'((?:[^'\\]|'')*)'::text`;
const ONE = new RegExp(String.raw`^\((?:objects\.)?bucket_id = ${STRING}\)$`);
const SEVERAL = new RegExp(
  String.raw`^\((?:objects\.)?bucket_id = ANY \(ARRAY\[(${STRING}(?:, ${STRING})*)\]\)\)$`,
);

function namedBuckets(condition: string): readonly string[] | undefined {
  const [, one] = ONE.exec(condition) ?? [];
  if (one !== undefined) return [unquote(one)];
  const [, several] = SEVERAL.exec(condition) ?? [];
  if (several === undefined) return undefined;
  const names = [...several.matchAll(new RegExp(STRING, 'g'))].map(([, name]) => unquote(name ?? ''));
  return [...new Set(names)];
}

const unquote = (text: string): string => text.replaceAll("''", "'");

/** Splits the operands of a printed AND. Returns any other expression whole. */
function conjuncts(printed: string): readonly string[] {
  const { tokens, fault } = scanSql(printed);
  if (fault !== null) return [printed];
  const cuts: Array<{ from: number; to: number }> = [];
  let depth = 0;
  let closes = -1;
  for (const { kind, text, start } of tokens) {
    if (kind === 'symbol' && (text === '(' || text === '[')) depth += 1;
    if (kind === 'symbol' && (text === ')' || text === ']')) {
      depth -= 1;
      if (depth === 0 && closes === -1) closes = start;
    }
    // A CASE contains conditions that must not be split.
    if (kind === 'word' && depth === 1 && closes === -1) {
      // A CASE contains conditions that must not be split.
      if (text === 'CASE') return [printed];
      if (text === 'AND') cuts.push({ from: start, to: start + text.length });
    }
  }
  const isOnePair = printed.startsWith('(') && closes === printed.length - 1;
  if (!isOnePair || cuts.length === 0) return [printed];
  const edges = [{ from: 0, to: 1 }, ...cuts, { from: closes, to: closes + 1 }];
  return edges.slice(1).map(({ from }, index) => printed.slice(edges[index]?.to ?? 0, from).trim());
}
