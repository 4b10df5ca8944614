// Hooks of auth as the file writes them.
import { expect, test } from 'vitest';
import { loadConfig } from '../../load.ts';
import { renderPath } from '../../mistakes/mistake.ts';

const FUNCTION =
  'args: [{ name: event, type: jsonb }], returns: { type: jsonb }, body: "begin return event; end"';

function load(hook: string, rest = ''): ReturnType<typeof loadConfig> {
  const text = `version: 1\nauth: { hooks: { custom_access_token: ${hook} } }\n${rest}`;
  return loadConfig({ name: 'svc.yaml', directory: undefined, text }, { variables: {} });
}

function listMistakes(hook: string, rest = ''): string[] {
  const loaded = load(hook, rest);
  return loaded.ok
    ? []
    : loaded.mistakes.map(({ path, message, hint }) => `${renderPath(path)}: ${message} | ${hint}`);
}

test.each([
  ['{}', '', /^auth\.hooks\.custom_access_token: the hook names no function/],
  ['{ rpc: claims, function: claims }', '', /function: a hook has either rpc or function/],
  [
    '{ rpc: claim }',
    `rpc: { claims: { ${FUNCTION}, expose: false } }`,
    /rpc has no function claim \| Did you mean claims/,
  ],
  ['{ function: claims }', '', /functions has no function claims \| Declare it under functions/],
  [
    '{ rpc: claims }',
    `rpc: { claims: { ${FUNCTION} } }`,
    /^rpc\.claims: clients could call .* \| Add expose: false/,
  ],
  [
    '{ rpc: claims }',
    `rpc: { claims: { ${FUNCTION.replace('type: jsonb }]', 'type: json }]')}, expose: false } }`,
    /one argument, of type jsonb/,
  ],
  [
    '{ rpc: claims }',
    `rpc: { claims: { ${FUNCTION.replace('returns: { type: jsonb }', 'returns: { type: text }')}, expose: false } }`,
    /returns jsonb/,
  ],
  ['{ rpc: claims, timeout: 11s }', '', /timeout: .*must be at most 10s/],
  ['{ rpc: claims, timeout: 10ms }', '', /timeout: .*must be at least 100ms/],
])('%s is rejected', (hook, rest, message) => {
  expect(listMistakes(hook, rest).join('\n')).toMatch(message);
});

test('a hook with an SQL function is accepted', () => {
  const loaded = load('{ rpc: claims }', `rpc: { claims: { name: add_claims, ${FUNCTION}, expose: false } }`);
  expect(loaded.ok && loaded.config.auth.hooks).toEqual({
    custom_access_token: { rpc: { schema: 'public', name: 'add_claims' }, timeoutMs: 2_000 },
  });
});

test('a file without hooks has none', () => {
  const loaded = loadConfig(
    { name: 'svc.yaml', directory: undefined, text: 'version: 1\n' },
    { variables: {} },
  );
  expect(loaded.ok && loaded.config.auth).not.toHaveProperty('hooks');
});
