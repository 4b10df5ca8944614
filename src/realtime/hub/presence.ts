// Who is present in a room. A member has at most one entry; members with the same key appear as one with several
// entries. Text is put together by hand: a key may be `__proto__`, and what a client gave is JSON already.
import { randomBytes } from 'node:crypto';

export type Meta = {
  readonly key: string;
  /** Unique among all instances. */
  readonly ref: string;
  /** What the member told of itself: the text of a JSON object. */
  readonly payload: string;
  /** Of the entry that this one replaces. */
  readonly previous?: string | undefined;
};

export type PresenceChange = { readonly joins: readonly Meta[]; readonly leaves: readonly Meta[] };

const PROCESS = randomBytes(6).toString('base64url');
let count = 0;

export function nextRef(): string {
  return `${PROCESS}${(count++).toString(36)}`;
}

export class Presence<Owner> {
  readonly #metas = new Map<Owner, Meta>();

  get size(): number {
    return this.#metas.size;
  }

  /** Undefined when nothing changes. */
  track(owner: Owner, key: string, payload: string): PresenceChange | undefined {
    const before = this.#metas.get(owner);
    if (before?.payload === payload && before.key === key) return undefined;
    const meta = { key, ref: nextRef(), payload, previous: before?.ref };
    this.#metas.set(owner, meta);
    return { joins: [meta], leaves: before ? [before] : [] };
  }

  /** Undefined when it was not present. */
  untrack(owner: Owner): PresenceChange | undefined {
    const before = this.#metas.get(owner);
    if (!before) return undefined;
    this.#metas.delete(owner);
    return { joins: [], leaves: [before] };
  }

  metas(): IterableIterator<Meta> {
    return this.#metas.values();
  }
}

/** Payload of `presence_state`. */
export function stateText(metas: Iterable<Meta>): string {
  const byKey = new Map<string, string[]>();
  for (const meta of metas) {
    const texts = byKey.get(meta.key);
    if (texts) texts.push(metaText(meta));
    else byKey.set(meta.key, [metaText(meta)]);
  }
  const entries = [...byKey].map(([key, texts]) => `${JSON.stringify(key)}:{"metas":[${texts.join(',')}]}`);
  return `{${entries.join(',')}}`;
}

/** Payload of `presence_diff`. */
export function changeText({ joins, leaves }: PresenceChange): string {
  return `{"joins":${stateText(joins)},"leaves":${stateText(leaves)}}`;
}

/** Ours come last: of two keys with one name a reader takes the last. */
function metaText({ ref, previous, payload }: Meta): string {
  const own = `"phx_ref":${JSON.stringify(ref)}${previous === undefined ? '' : `,"phx_ref_prev":${JSON.stringify(previous)}`}}`;
  const body = payload.slice(0, -1);
  return body.trim() === '{' ? `{${own}` : `${body},${own}`;
}
