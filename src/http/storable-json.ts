// PostgreSQL's jsonb rejects NUL and lone surrogates.

/** Whether jsonb can store every text of a JSON value, including keys. */
export function isStorableJson(value: unknown): boolean {
  if (typeof value === 'string') return isStorableText(value);
  if (typeof value !== 'object' || value === null) return true;
  if (Array.isArray(value)) return value.every(isStorableJson);
  return Object.entries(value).every(([key, inner]) => isStorableText(key) && isStorableJson(inner));
}

/** Removes NUL and replaces lone surrogates by U+FFFD, for values whose sender cannot correct them. */
export function toStorableJson(value: unknown): unknown {
  if (typeof value === 'string') return toStorableText(value);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(toStorableJson);
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [toStorableText(key), toStorableJson(inner)]),
  );
}

const isStorableText = (text: string): boolean => !text.includes('\0') && text.isWellFormed();
const toStorableText = (text: string): string => text.replaceAll('\0', '').toWellFormed();
