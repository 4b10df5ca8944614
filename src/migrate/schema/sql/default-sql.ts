// Converts a default of the file to SQL for a column or argument of a given type.
import type { Default } from '../../../config/config.ts';
import { quoteLiteral } from '../../../postgres/sql.ts';
import type { DefaultModel } from '../model.ts';

const MOMENTS = new Set([
  'timestamp',
  'timestamptz',
  'timestamp with time zone',
  'timestamp without time zone',
  'date',
]);
const TIMES = new Set(['time', 'timetz', 'time with time zone', 'time without time zone']);

export function toDefaultModel(value: Default): DefaultModel {
  switch (value.kind) {
    case 'scalar':
      return { kind: 'literal', text: value.text };
    case 'list':
      return { kind: 'list', items: value.items, json: value.json };
    case 'map':
      return { kind: 'json', text: value.json };
    case 'sql':
      return { kind: 'sql', text: value.text };
  }
}

export function defaultSql(value: DefaultModel, type: string): string {
  switch (value.kind) {
    case 'sql':
      return `(\n${value.text}\n)`;
    case 'json':
      return quoteLiteral(value.text);
    case 'list':
      // For json and jsonb, a list is a JSON array. For other types, the server reports the error.
      if (!isArray(type)) return quoteLiteral(value.json);
      return value.items.length === 0
        ? `'{}'`
        : `array[${value.items.map((item) => quoteLiteral(item)).join(', ')}]::${type}`;
    case 'literal':
      return literalDefault(value.text, type);
  }
}

// Literals are quoted, and the server converts them to the type of the column: `'5'` is 5 in an integer column. No
// digits pass through a JavaScript number.
function literalDefault(text: string, type: string): string {
  const base = type
    .toLowerCase()
    .replace(/\([^)]*\)/g, '')
    .replace(/\s+/g, ' ')
    .trim();
  const word = text.trim().toLowerCase();
  if (word === 'now()' && (MOMENTS.has(base) || TIMES.has(base))) return 'now()';
  if (word === 'current_timestamp' && (MOMENTS.has(base) || TIMES.has(base))) return 'current_timestamp';
  if (word === 'current_date' && MOMENTS.has(base)) return 'current_date';
  if (word === 'current_time' && TIMES.has(base)) return 'current_time';
  if (base === 'uuid') {
    if (word === 'uuid_v4()' || word === 'uuid_v7()' || word === 'gen_random_uuid()')
      return 'gen_random_uuid()';
    if (word === 'auth.uid()') return 'auth.uid()';
  }
  if ((base === 'json' || base === 'jsonb') && !isJson(text)) return quoteLiteral(JSON.stringify(text));
  return quoteLiteral(text);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

export function isArray(type: string): boolean {
  return /\]\s*$|\barray\b/i.test(type);
}
