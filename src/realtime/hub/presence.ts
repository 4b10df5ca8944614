// Presence entries of a room. A member has at most one entry. Members with the same key appear as one key with several
// entries. JSON text is concatenated, because a key may be `__proto__` and the payloads are JSON text already.
import { randomBytes } from 'node:crypto';
import type { Meta, PresenceChange } from '../protocol/room-message.ts';

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

  /** Returns undefined when the entry does not change. */
  track(owner: Owner, key: string, payload: string): PresenceChange | undefined {
    const before = this.#metas.get(owner);
    if (before?.payload === payload && before.key === key) return undefined;
    const meta = { key, ref: nextRef(), payload, previous: before?.ref };
    this.#metas.set(owner, meta);
    return { joins: [meta], leaves: before ? [before] : [] };
  }

  /** Returns undefined when the owner has no entry. */
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

/** Renders the payload of `presence_state`. */
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

/** Renders the payload of `presence_diff`. */
export function changeText({ joins, leaves }: PresenceChange): string {
  return `{"joins":${stateText(joins)},"leaves":${stateText(leaves)}}`;
}

/** Appends the `phx_…` keys. JSON parsers keep the last of two equal keys, so a payload cannot replace them. */
function metaText({ ref, previous, payload }: Meta): string {
  const replaced = previous === undefined ? '' : `,"phx_ref_prev":${JSON.stringify(previous)}`;
  const own = `"phx_ref":${JSON.stringify(ref)}${replaced}}`;
  const body = payload.slice(0, -1);
  return body.trim() === '{' ? `{${own}` : `${body},${own}`;
}
