import { expect, test } from 'vitest';
import type { Policy } from '../config/config.ts';
import { policyText } from './policy-text.ts';

const declared = (using: string): Policy => ({ operations: ['select'], using }) as unknown as Policy;

test.each([
  ['(customer_id = ( SELECT auth.uid() AS uid))', 'customer_id = auth.uid()'],
  ["(state = 'open'::text)", "state = 'open'"],
  [
    '(EXISTS ( SELECT 1 FROM lists l WHERE (l.id = todos.list_id)))',
    'exists (select 1 from lists l where l.id = todos.list_id)',
  ],
])('%s is shown as in the file', (printed, written) => {
  expect(policyText(printed, [declared('true'), declared(written)])).toBe(written);
});

test.each([
  ['(customer_id = ( SELECT auth.uid() AS uid))', 'customer_id = auth.uid()'],
  ['((a = 1) OR (b = 2))', '(a = 1) OR (b = 2)'],
  ['(a = 1) OR (b = 2)', '(a = 1) OR (b = 2)'],
  ['true', 'true'],
])('%s without a policy in the file is shown as %s', (printed, shown) => {
  expect(policyText(printed, [])).toBe(shown);
});

test.each([
  ["(state = 'Open'::text)", "state = 'open'"],
  ['((a OR b) AND c)', 'a or (b and c)'],
  ['((n * (m + 1)) > 0)', '(n * m + 1) > 0'],
])('%s is not mistaken for %s', (printed, written) => {
  expect(policyText(printed, [declared(written)])).not.toBe(written);
});
