// Compares decimals digit by digit, for bounds that a JavaScript number would round.

/** `digits` × 10^`exponent`. */
export type Decimal = { readonly digits: bigint; readonly exponent: number };

/** No database type stores longer numbers, and comparisons of them are slow. */
const MAX_EXPONENT = 20_000;

export function parseDecimal(text: string): Decimal | undefined {
  const match = /^(-?)(\d+)(?:\.(\d+))?(?:e([-+]?\d+))?$/.exec(text);
  if (!match) return undefined;
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = match;
  if (whole.length + fraction.length > MAX_EXPONENT || Math.abs(Number(exponent)) > MAX_EXPONENT)
    return undefined;
  return { digits: BigInt(sign + whole + fraction), exponent: Number(exponent) - fraction.length };
}

export function compareDecimals(a: Decimal, b: Decimal): -1 | 0 | 1 {
  const exponent = Math.min(a.exponent, b.exponent);
  const left = a.digits * 10n ** BigInt(a.exponent - exponent);
  const right = b.digits * 10n ** BigInt(b.exponent - exponent);
  if (left === right) return 0;
  return left < right ? -1 : 1;
}
