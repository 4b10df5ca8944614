// The Prefer header: of each preference the first token counts; unknown tokens are kept as invalid.
import { invalidGuard, invalidPreferences } from '../problem.ts';

export type Preferences = {
  readonly return: 'minimal' | 'headers-only' | 'representation' | undefined;
  readonly count: 'exact' | 'planned' | 'estimated' | undefined;
  readonly resolution: 'merge-duplicates' | 'ignore-duplicates' | undefined;
  readonly missing: 'default' | 'null' | undefined;
  readonly handling: 'strict' | 'lenient' | undefined;
  readonly tx: 'commit' | 'rollback' | undefined;
  /** Not from a replica. */
  readonly read: 'primary' | undefined;
  readonly singleObject: boolean;
  readonly maxAffected: number | undefined;
  readonly timezone: string | undefined;
  readonly invalid: readonly string[];
};

const NO_PREFERENCES: Preferences = {
  return: undefined,
  count: undefined,
  resolution: undefined,
  missing: undefined,
  handling: undefined,
  tx: undefined,
  read: undefined,
  singleObject: false,
  maxAffected: undefined,
  timezone: undefined,
  invalid: [],
};

export function parsePreferences(header: string): Preferences {
  if (header === '') return NO_PREFERENCES;
  const preferences = { ...NO_PREFERENCES };
  const invalid: string[] = [];
  const tokens = new Set(header.split(',').map((part) => part.trim()));
  tokens.delete('');
  // From last to first, so that the first token of a preference wins.
  for (const token of [...tokens].reverse()) {
    const choice = read(token);
    if (choice) Object.assign(preferences, choice);
    else invalid.push(token);
  }
  return { ...preferences, invalid: invalid.reverse() };
}

/** Rejects an invalid limit or rollback: without it, the write would change more than requested. */
export function checkGuards({ invalid }: Preferences): void {
  const guard = invalid.find((token) => GUARD.test(token));
  if (guard !== undefined) throw invalidGuard(guard);
}

const GUARD = /^(?:max-affected|tx)(?![\w-])/i;

export function checkStrict(preferences: Preferences): void {
  if (preferences.handling === 'strict' && preferences.invalid.length > 0) {
    throw invalidPreferences(preferences.invalid);
  }
}

const CHOICES: ReadonlyMap<string, Partial<Preferences>> = new Map<string, Partial<Preferences>>([
  ['return=minimal', { return: 'minimal' }],
  ['return=headers-only', { return: 'headers-only' }],
  ['return=representation', { return: 'representation' }],
  ['count=exact', { count: 'exact' }],
  ['count=planned', { count: 'planned' }],
  ['count=estimated', { count: 'estimated' }],
  ['count=none', {}],
  ['resolution=merge-duplicates', { resolution: 'merge-duplicates' }],
  ['resolution=ignore-duplicates', { resolution: 'ignore-duplicates' }],
  ['missing=default', { missing: 'default' }],
  ['missing=null', { missing: 'null' }],
  ['handling=strict', { handling: 'strict' }],
  ['handling=lenient', { handling: 'lenient' }],
  ['tx=commit', { tx: 'commit' }],
  ['tx=rollback', { tx: 'rollback' }],
  ['read=primary', { read: 'primary' }],
  ['params=single-object', { singleObject: true }],
]);

/** Undefined for an unknown token. */
function read(token: string): Partial<Preferences> | undefined {
  const known = CHOICES.get(token);
  if (known) return known;
  const [, maxAffected] = /^max-affected=(\d{1,15})$/.exec(token) ?? [];
  if (maxAffected !== undefined) return { maxAffected: Number(maxAffected) };
  const zone = token.startsWith('timezone=') ? token.slice('timezone='.length) : '';
  return zone === '' ? undefined : { timezone: zone };
}

/** How many rows a write may change; `handling=lenient` turns the limit off. */
export function affectedLimit({ maxAffected, handling }: Preferences): number | undefined {
  return handling === 'lenient' ? undefined : maxAffected;
}

/** The value of Preference-Applied, undefined when empty. `own`: preferences that only some kinds of request apply. */
export function appliedHeader(
  { count, tx, read, handling, timezone }: Preferences,
  own: Partial<Pick<Preferences, 'resolution' | 'missing' | 'return' | 'maxAffected'>> = {},
): string | undefined {
  const applied = [
    ['resolution', own.resolution],
    ['missing', own.missing],
    ['return', own.return],
    ['count', count],
    ['tx', tx],
    ['read', read],
    ['handling', handling],
    ['timezone', timezone],
    ['max-affected', own.maxAffected],
  ] as const;
  const parts = applied.flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${value}`]));
  return parts.length === 0 ? undefined : parts.join(', ');
}
