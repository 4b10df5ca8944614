// One scalar of the file: what it says after substitution, what kind of value YAML reads in it, and how it was
// written. Numbers keep their digits: `1.10` and `9007199254740993` never pass through a JavaScript number.
import { parseDecimal, type Decimal } from './decimal.ts';

export type ScalarKind = 'string' | 'number' | 'boolean' | 'null';

export type ScalarText = {
  readonly kind: ScalarKind;
  /** For a number its digits, in the spelling that SQL and JSON read too. */
  readonly text: string;
  readonly quoted: boolean;
  /** Before `${VAR}` was substituted: the only form that messages may show. */
  readonly written: string;
  readonly substituted: boolean;
};

/** Nothing but text begins like this; most of a file does. */
export const ONLY_TEXT = /^[a-eg-mo-su-zA-EG-MO-SU-Z_]/;

/** The YAML 1.2 core schema's reading of a plain scalar, whatever a `%YAML` line says. */
export function readPlain(text: string): { readonly kind: ScalarKind; readonly text: string } {
  if (ONLY_TEXT.test(text)) return { kind: 'string', text };
  if (/^(?:null|Null|NULL|~)?$/.test(text)) return { kind: 'null', text: 'null' };
  if (/^(?:true|True|TRUE|false|False|FALSE)$/.test(text))
    return { kind: 'boolean', text: text.toLowerCase() };
  // Not finite is no number in SQL or JSON; as text PostgreSQL's float and numeric read both.
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

/** A bound as the file gives it, quoted or not; undefined when it is no number. */
export function toDecimal(text: string): Decimal | undefined {
  const digits = decimalDigits(text);
  return digits === undefined ? undefined : parseDecimal(digits);
}

/** `0x10` → `16`, `+07.` → `7`, `.5` → `0.5`; undefined when the text is no number. */
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
