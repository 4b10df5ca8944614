// user_metadata and app_metadata: shallow merges in which null removes a key. Every token contains them, so their size
// is limited. Keys that reach an object's prototype are dropped.
import type { JsonObject } from '../fields.ts';
import { isStorableJson } from '../../http/storable-json.ts';
import { problems } from '../problem.ts';

const FORBIDDEN_KEYS: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype']);
/** Maximum size of the merged object as JSON text. */
const MAX_BYTES = 64 * 1024;

export function mergeMetadata(base: JsonObject, change: JsonObject | undefined): JsonObject {
  if (!change) return base;
  if (!isStorableJson(change))
    throw problems.validationFailed('Metadata must not contain NUL characters or lone surrogates');
  const merged: JsonObject = { ...base };
  for (const [key, value] of Object.entries(change)) {
    if (FORBIDDEN_KEYS.has(key)) continue;
    if (value === null) delete merged[key];
    else merged[key] = clean(value);
  }
  if (Buffer.byteLength(JSON.stringify(merged)) > MAX_BYTES) {
    throw problems.validationFailed(`Metadata must not be larger than ${MAX_BYTES / 1024}KB`);
  }
  return merged;
}

function clean(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(clean);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key]) => !FORBIDDEN_KEYS.has(key))
      .map(([key, inner]) => [key, clean(inner)]),
  );
}
