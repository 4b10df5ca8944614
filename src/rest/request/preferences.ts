// The Prefer header: known tokens of each family, the first one wins; the rest is remembered as invalid.
import { invalidPreferences } from '../problem.ts';

export type Preferences = {
  readonly return: 'minimal' | 'headers-only' | 'representation' | undefined;
  readonly count: 'exact' | 'planned' | 'estimated' | undefined;
  readonly resolution: 'merge-duplicates' | 'ignore-duplicates' | undefined;
  readonly missing: 'default' | 'null' | undefined;
  readonly handling: 'strict' | 'lenient' | undefined;
  readonly tx: 'commit' | 'rollback' | undefined;
  readonly singleObject: boolean;
  readonly maxAffected: number | undefined;
  readonly timezone: string | undefined;
  readonly invalid: readonly string[];
};

export const NO_PREFERENCES: Preferences = {
  return: undefined,
  count: undefined,
  resolution: undefined,
  missing: undefined,
  handling: undefined,
  tx: undefined,
  singleObject: false,
  maxAffected: undefined,
  timezone: undefined,
  invalid: [],
};

type Draft = { -readonly [K in keyof Preferences]: Preferences[K] };

export function parsePreferences(header: string | undefined): Preferences {
  if (header === undefined) return NO_PREFERENCES;
  const preferences: Draft = { ...NO_PREFERENCES };
  const invalid: string[] = [];
  for (const part of header.split(',')) {
    const token = part.trim();
    if (token !== '' && !apply(preferences, token)) invalid.push(token);
  }
  preferences.invalid = invalid;
  return preferences;
}

export function checkStrict(preferences: Preferences): void {
  if (preferences.handling === 'strict' && preferences.invalid.length > 0) {
    throw invalidPreferences(preferences.invalid);
  }
}

/** False when the token is not known at all. */
function apply(preferences: Draft, token: string): boolean {
  switch (token) {
    case 'return=minimal':
      preferences.return ??= 'minimal';
      return true;
    case 'return=headers-only':
      preferences.return ??= 'headers-only';
      return true;
    case 'return=representation':
      preferences.return ??= 'representation';
      return true;
    case 'count=exact':
      preferences.count ??= 'exact';
      return true;
    case 'count=planned':
      preferences.count ??= 'planned';
      return true;
    case 'count=estimated':
      preferences.count ??= 'estimated';
      return true;
    case 'count=none':
      return true;
    case 'resolution=merge-duplicates':
      preferences.resolution ??= 'merge-duplicates';
      return true;
    case 'resolution=ignore-duplicates':
      preferences.resolution ??= 'ignore-duplicates';
      return true;
    case 'missing=default':
      preferences.missing ??= 'default';
      return true;
    case 'missing=null':
      preferences.missing ??= 'null';
      return true;
    case 'handling=strict':
      preferences.handling ??= 'strict';
      return true;
    case 'handling=lenient':
      preferences.handling ??= 'lenient';
      return true;
    case 'tx=commit':
      preferences.tx ??= 'commit';
      return true;
    case 'tx=rollback':
      preferences.tx ??= 'rollback';
      return true;
    case 'params=single-object':
      preferences.singleObject = true;
      return true;
    default:
      return applyValued(preferences, token);
  }
}

function applyValued(preferences: Draft, token: string): boolean {
  if (token.startsWith('max-affected=')) {
    const text = token.slice('max-affected='.length);
    if (!/^\d{1,9}$/.test(text)) return false;
    preferences.maxAffected ??= Number(text);
    return true;
  }
  if (token.startsWith('timezone=')) {
    const zone = token.slice('timezone='.length);
    if (zone === '') return false;
    preferences.timezone ??= zone;
    return true;
  }
  return false;
}

export type Applied = {
  readonly resolution: boolean;
  readonly missing: boolean;
  readonly return: boolean;
  readonly maxAffected: boolean;
};

/** The value of Preference-Applied, undefined when nothing applied. */
export function appliedHeader(preferences: Preferences, applied: Applied): string | undefined {
  const parts: string[] = [];
  if (applied.resolution && preferences.resolution) parts.push(`resolution=${preferences.resolution}`);
  if (applied.missing && preferences.missing) parts.push(`missing=${preferences.missing}`);
  if (applied.return && preferences.return) parts.push(`return=${preferences.return}`);
  if (preferences.count) parts.push(`count=${preferences.count}`);
  if (preferences.tx) parts.push(`tx=${preferences.tx}`);
  if (preferences.handling) parts.push(`handling=${preferences.handling}`);
  if (preferences.timezone !== undefined) parts.push(`timezone=${preferences.timezone}`);
  if (applied.maxAffected && preferences.maxAffected !== undefined) {
    parts.push(`max-affected=${preferences.maxAffected}`);
  }
  return parts.length === 0 ? undefined : parts.join(', ');
}
