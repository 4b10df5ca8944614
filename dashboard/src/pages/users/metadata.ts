export type Metadata = Record<string, unknown>;

/** Returns undefined if the text is not a JSON object. */
export function parseMetadata(text: string): Metadata | undefined {
  try {
    const value: unknown = JSON.parse(text === '' ? '{}' : text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Metadata)
      : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the change to send. The server merges it, so removed keys are set to null. */
export function metadataChange(before: Metadata, after: Metadata): Metadata {
  const removed = Object.keys(before).filter((key) => !Object.hasOwn(after, key));
  return { ...after, ...Object.fromEntries(removed.map((key) => [key, null])) };
}
