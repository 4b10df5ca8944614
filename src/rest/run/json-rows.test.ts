import { expect, test } from 'vitest';
import { JsonRows, rowFrame } from './json-rows.ts';

function dataRow(values: ReadonlyArray<string | null>): Buffer {
  const parts = [Buffer.from([0, values.length])];
  for (const value of values) {
    const bytes = value === null ? Buffer.alloc(0) : Buffer.from(value);
    const size = Buffer.alloc(4);
    size.writeInt32BE(value === null ? -1 : bytes.length);
    parts.push(size, bytes);
  }
  return Buffer.concat(parts);
}

/** Passes the row inside a larger chunk, as a socket delivers it. */
function add(rows: JsonRows, row: Buffer): void {
  const chunk = Buffer.concat([Buffer.from('before'), row, Buffer.from('after')]);
  rows.row(chunk, 6, 6 + row.length);
}

test('each form becomes JSON as PostgreSQL would write it', () => {
  const frame = rowFrame([
    { name: 'n', form: 'number' },
    { name: 'b', form: 'boolean' },
    { name: 'j', form: 'json' },
    { name: 'quo"te', form: 'text' },
  ]);
  const rows = new JsonRows(frame, 1);
  add(rows, dataRow(['1.50', 't', '{"a": 1}', 'plain']));
  add(rows, dataRow(['NaN', 'f', 'null', 'q"b\\s\n\t\u0001\u007fé☃😀']));
  add(rows, dataRow([null, null, null, null]));
  expect(rows.count).toBe(3);
  expect(rows.finish().toString()).toBe(
    '[{"n":1.50,"b":true,"j":{"a": 1},"quo\\"te":"plain"}, \n ' +
      '{"n":"NaN","b":false,"j":null,"quo\\"te":"q\\"b\\\\s\\n\\t\\u0001\u007fé☃😀"}, \n ' +
      '{"n":null,"b":null,"j":null,"quo\\"te":null}]',
  );
});

test('an escape at any place of a text, and none where none is needed', () => {
  const frame = rowFrame([{ name: 't', form: 'text' }]);
  const bytes = Array.from({ length: 128 }, (_, code) => String.fromCharCode(code)).slice(1);
  for (const char of [...bytes, 'é', '☃', '😀']) {
    for (let place = 0; place < 9; place++) {
      const text = 'x'.repeat(place) + char + 'é!#[]~'.slice(place % 4);
      const rows = new JsonRows(frame, 1);
      add(rows, dataRow([text]));
      expect(rows.finish().toString()).toBe(`[{"t":${JSON.stringify(text)}}]`);
      rows.release();
    }
  }
});

test('no rows', () => {
  expect(new JsonRows(rowFrame([]), 1).finish().toString()).toBe('[]');
});
