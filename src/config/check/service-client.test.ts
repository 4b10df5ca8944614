import { expect, test } from 'vitest';
import { mentionsServiceClient } from './service-client.ts';

test.each([
  ['ctx.serviceClient.from("a")', true],
  ['const { serviceClient: admin } = ctx;', true],
  ['ctx["serviceClient"]', true],
  ['// serviceClient', false],
  ['/* never\n serviceClient */ ctx.client', false],
  ['const url = "http://x"; ctx.serviceClient', true],
  ['const a = `//`; ctx.serviceClient', true],
  ["const quote = '\\'//'; ctx.serviceClient", true],
  ['myserviceClientele', false],
  ['ctx.client', false],
])('%s', (source, expected) => {
  expect(mentionsServiceClient(source)).toBe(expected);
});
