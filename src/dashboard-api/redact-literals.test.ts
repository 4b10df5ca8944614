import { expect, test } from 'vitest';
import { redactLiterals } from './redact-literals.ts';

test('literals are removed, parameters and names are kept', () => {
  for (const [text, shown] of [
    [`select "a" from t where b = $1 limit $2`, `select "a" from t where b = $1 limit $2`],
    [`alter role r password 'it''s secret'`, `alter role r password '…'`],
    [`select E'a\\'b', $tag$secret$tag$, 2`, `select '…', '…', 2`],
    [`select data->>'ann@example.com', '[]'`, `select data->>'…', '…'`],
    // Truncated within a literal.
    [`alter role r password 'secr`, `alter role r password …`],
  ] as const) {
    expect(redactLiterals(text)).toBe(shown);
  }
});
