import { expect, test } from 'vitest';
import { withoutStrings } from './without-strings.ts';

test('strings are left out of a text, parameters and names stay', () => {
  for (const [text, shown] of [
    [`select "a" from t where b = $1 limit $2`, `select "a" from t where b = $1 limit $2`],
    [`alter role r password 'it''s secret'`, `alter role r password '…'`],
    [`select E'a\\'b', $tag$secret$tag$, 2`, `select '…', '…', 2`],
    [`select data->>'ann@example.com', '[]'`, `select data->>'…', '…'`],
    // Cut off within a string.
    [`alter role r password 'secr`, `alter role r password …`],
  ] as const) {
    expect(withoutStrings(text)).toBe(shown);
  }
});
