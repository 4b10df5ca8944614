// Tests that `svc explain` finds the codes of all pages with their section.
import { expect, test } from 'vitest';
import { explainCommand } from './explain.ts';

async function explain(...args: readonly string[]): Promise<string> {
  const printed: string[] = [];
  const print = (text: string): void => void printed.push(text);
  const terminal = { color: false, print, printError: print, style: (_: unknown, text: string) => text };
  await explainCommand(terminal).parseAsync([...args], { from: 'user' });
  return printed.join('\n');
}

test.each([
  ['PGRST205', /^PGRST205 {2}Data API: \/rest\/v1, 404\n {2}there is no such table.*\n {2}→ /],
  [
    'mig-202',
    /^MIG-202 .*\n {2}a field becomes unique and values occur more than once\n\nOn the site: errors\/mig-202$/,
  ],
  ['IMP-401', /^IMP-401 /],
  ['invalid_credentials', /Auth: \/auth\/v1, 400[\s\S]*Realtime: \/realtime\/v1, 401/],
  ['unknown-key', /svc\.yaml/],
])('%s', async (code, said) => {
  expect(await explain(code)).toMatch(said);
});

test('prints JSON', async () => {
  expect(JSON.parse(await explain('PGRST205', '--json'))).toMatchObject({
    command: 'explain',
    data: {
      codes: [{ code: 'PGRST205', page: 'errors/pgrst205', status: '404', where: 'Data API: /rest/v1' }],
    },
  });
});

test('suggests a similar code', async () => {
  await expect(explain('otp_expire')).rejects.toThrow(/Did you mean otp_expired\?/);
});
