// Values of the database as text, and text as values. Whole digits and whole documents matter more than pretty
// ones: what JavaScript would round (bigint, numeric, JSON) is read as text and written as the text it was given.

export type ValueType = {
  readonly type: string;
  /** One letter of `pg_type.typcategory`. */
  readonly category: string;
  readonly enumLabels?: readonly string[] | null;
};

export type ValueKind = 'boolean' | 'choice' | 'number' | 'json' | 'array' | 'time' | 'uuid' | 'text';

export function kindOf({ type, category, enumLabels }: ValueType): ValueKind {
  if (enumLabels && enumLabels.length > 0) return 'choice';
  if (category === 'A' || type.endsWith('[]')) return 'array';
  if (category === 'B' || type === 'boolean') return 'boolean';
  if (type === 'json' || type === 'jsonb' || category === 'C') return 'json';
  if (type === 'uuid') return 'uuid';
  if (category === 'N') return 'number';
  if (category === 'D') return 'time';
  return 'text';
}

/** Types whose JSON a browser would round: they are asked for as text. */
export function losesDigits(type: string): boolean {
  return /^(bigint|int8|numeric|decimal|jsonb?)\b/.test(type);
}

/** Types that can be compared with `eq` and the text they are shown as. */
export function isComparable(value: ValueType): boolean {
  const kind = kindOf(value);
  return kind !== 'json' && kind !== 'array' && 'BDENSTI'.includes(kind === 'uuid' ? 'S' : value.category);
}

/** As it is shown and edited; null stays null. */
export function toText(value: unknown): string | null {
  if (value === null || value === undefined) return null;
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** The JSON to send for what somebody typed. Throws with what is wrong about it. */
export function toJson(text: string, value: ValueType): string {
  switch (kindOf(value)) {
    case 'boolean':
      if (text === 'true' || text === 'false') return text;
      throw new Error('true or false');
    case 'json':
      return checkedJson(text);
    case 'array':
      // PostgreSQL's own spelling, {a,b}, is taken as well.
      return text.trimStart().startsWith('[') ? checkedJson(text) : JSON.stringify(text);
    case 'number':
      // As text: PostgreSQL reads every digit.
      return JSON.stringify(text.trim());
    case 'choice':
    case 'time':
    case 'uuid':
    case 'text':
      return JSON.stringify(text);
  }
}

function checkedJson(text: string): string {
  try {
    JSON.parse(text);
    return text;
  } catch (error) {
    throw new Error(`This is not JSON: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    });
  }
}

/** A JSON object of members that are JSON already. */
export function jsonObject(members: ReadonlyArray<readonly [name: string, json: string]>): string {
  return `{${members.map(([name, json]) => `${JSON.stringify(name)}:${json}`).join(',')}}`;
}
