// An SQL function that takes as long as its caller requests, and calls of it.
import type { Call } from './load.ts';

export const SLOW = `
rpc:
  slow:
    language: sql
    volatility: stable
    args: [{ name: s, type: float, required: true }]
    returns: { type: text }
    body: select 'slept ' || s from (select pg_sleep(s)) as sleep
`;

export const slow = (forSeconds: number): Call => ({
  kind: 'read',
  method: 'POST',
  path: '/rest/v1/rpc/slow',
  body: { s: forSeconds },
  wrong: (text) => (text === `"slept ${forSeconds}"` ? undefined : `slow answered ${text.slice(0, 120)}`),
});
