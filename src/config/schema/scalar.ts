// A scalar of the file: its value after substitution, its YAML type and its written form. Numbers keep their digits:
// `1.10` and `9007199254740993` never become JavaScript numbers.
import { parseDecimal, type Decimal } from './decimal.ts';

export type ScalarKind = 'string' | 'number' | 'boolean' | 'null';

export type ScalarText = {
  readonly kind: ScalarKind;
  /** Numbers in a spelling that SQL and JSON accept. */
  readonly text: string;
  readonly quoted: boolean;
  /** Written form before substitution of `${VAR}`. Messages must not show another form. */
  readonly written: string;
  readonly substituted: boolean;
};

/** First characters that can only begin text. Most scalars of a file match. */
export const ONLY_TEXT = /^[a-eg-mo-su-zA-EG-MO-SU-Z_]/;

/** Parses a plain scalar with the core schema of YAML 1.2. Ignores a `%YAML` directive. */
export function readPlain(text: string): { readonly kind: ScalarKind; readonly text: string } {
  if (ONLY_TEXT.test(text)) return { kind: 'string', text };
  if (/^(?:null|Null|NULL|~)?$/.test(text)) return { kind: 'null', text: 'null' };
  if (/^(?:true|True|TRUE|false|False|FALSE)$/.test(text))
    return { kind: 'boolean', text: text.toLowerCase() };
  // SQL and JSON have no infinite numbers. Return text, which float and numeric of PostgreSQL accept.
  const infinite = /^([-+]?)\.(?:inf|Inf|INF)$/.exec(text);
  if (infinite) return { kind: 'string', text: `${infinite[1] === '-' ? '-' : ''}Infinity` };
  if (/^\.(?:nan|NaN|NAN)$/.test(text)) return { kind: 'string', text: 'NaN' };
  const digits = decimalDigits(text);
  return digits === undefined ? { kind: 'string', text } : { kind: 'number', text: digits };
}

export function toValue({ kind, text }: Pick<ScalarText, 'kind' | 'text'>): string | number | boolean | null {
  switch (kind) {
    case 'string':
      return text;
    case 'number':
      return Number(text);
    case 'boolean':
      return text === 'true';
    case 'null':
      return null;
  }
}

/** Parses a bound, quoted or not. Returns undefined for any other text. */
export function toDecimal(text: string): Decimal | undefined {
  const digits = decimalDigits(text);
  return digits === undefined ? undefined : parseDecimal(digits);
}

/** `0x10` → `16`, `+07.` → `7`, `.5` → `0.5`. Returns undefined if the text is not a number. */
export function decimalDigits(text: string): string | undefined {
  if (/^0o[0-7]+$/.test(text) || /^0x[0-9a-fA-F]+$/.test(text)) return BigInt(text).toString();
  const match = /^([-+]?)(?:(\d+)(?:\.(\d*))?|\.(\d+))(?:[eE]([-+]?\d+))?$/.exec(text);
  if (!match) return undefined;
  const [, sign, whole = '0', tail, onlyTail, exponent] = match;
  const fraction = tail ?? onlyTail ?? '';
  return [
    sign === '-' ? '-' : '',
    whole.replace(/^0+(?=\d)/, ''),
    fraction === '' ? '' : `.${fraction}`,
    exponent === undefined ? '' : `e${exponent}`,
  ].join('');
}
