// Converts between values of the database and text. Values that JavaScript would round (bigint, numeric, JSON) are
// read as text and written as the same text.

export type ValueType = {
  readonly type: string;
  /** `pg_type.typcategory`. */
  readonly category: string;
  readonly enumLabels?: readonly string[] | null;
};

export type ValueKind = 'boolean' | 'choice' | 'number' | 'json' | 'array' | 'time' | 'uuid' | 'text';

export function valueKind({ type, category, enumLabels }: ValueType): ValueKind {
  if (enumLabels && enumLabels.length > 0) return 'choice';
  if (category === 'A' || type.endsWith('[]')) return 'array';
  if (category === 'B' || type === 'boolean') return 'boolean';
  if (type === 'json' || type === 'jsonb' || category === 'C') return 'json';
  if (type === 'uuid') return 'uuid';
  if (category === 'N') return 'number';
  if (category === 'D') return 'time';
  return 'text';
}

/** Returns whether a browser would round the JSON of this type. Such columns are requested as text. */
export function losesDigits(type: string): boolean {
  return /^(bigint|int8|numeric|decimal|jsonb?)\b/.test(type);
}

/** Returns whether values of this type can be compared by `eq` with the text that is shown. */
export function isComparable(value: ValueType): boolean {
  const kind = valueKind(value);
  return kind !== 'json' && kind !== 'array' && 'BDENSTI'.includes(kind === 'uuid' ? 'S' : value.category);
}

/** Returns the text that is shown and edited. Null stays null. */
export function toText(value: unknown): string | null {
  if (value === null || value === undefined) return null;
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Returns the JSON to send for the typed text. Throws with a message for the user. */
export function toJson(text: string, value: ValueType): string {
  switch (valueKind(value)) {
    case 'boolean':
      if (text === 'true' || text === 'false') return text;
      throw new Error('true or false');
    case 'json':
      return checkedJson(text);
    case 'array':
      // Also accept PostgreSQL's array syntax, {a,b}.
      return text.trimStart().startsWith('[') ? checkedJson(text) : JSON.stringify(text);
    case 'number':
      // Send text, because PostgreSQL reads every digit.
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

/** Returns a JSON object. The values of `members` are JSON already. */
export function jsonObject(members: ReadonlyArray<readonly [name: string, json: string]>): string {
  return `{${members.map(([name, json]) => `${JSON.stringify(name)}:${json}`).join(',')}}`;
}
