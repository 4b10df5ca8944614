// Decimal prefixes mean powers of 1024, as in the hosted product: `1MB` is 1,048,576 bytes.
const UNIT = { B: 1, KB: 1024, MB: 1024 ** 2, GB: 1024 ** 3, TB: 1024 ** 4 } as const;

/** `500KB`, `1MB`, `1.5GB`, `1024` to bytes; undefined when the text is not a size. */
export function parseBytes(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*(B|KB|MB|GB|TB)?$/i.exec(text.trim());
  if (!match) return undefined;
  const [, amount, unit = 'B'] = match;
  return Math.round(Number(amount) * UNIT[unit.toUpperCase() as keyof typeof UNIT]);
}

/** Formats bytes in the largest unit that divides them. */
export function formatBytes(bytes: number): string {
  for (const unit of ['TB', 'GB', 'MB', 'KB'] as const) {
    if (bytes >= UNIT[unit] && bytes % UNIT[unit] === 0) return `${bytes / UNIT[unit]}${unit}`;
  }
  return `${bytes}B`;
}

/** Bytes for a person to read: `148 KB`, `1.5 GB`. */
export function approximateBytes(bytes: number): string {
  const unit = (['TB', 'GB', 'MB', 'KB'] as const).find((size) => bytes >= UNIT[size]) ?? 'B';
  const amount = bytes / UNIT[unit];
  return `${amount < 10 && unit !== 'B' ? amount.toFixed(1) : Math.round(amount)} ${unit}`;
}
