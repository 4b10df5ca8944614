import { expect, test } from 'vitest';
import type { Config } from '../../config/config.ts';
import { loadConfig } from '../../config/load.ts';
import { secretValues } from './env.ts';

function config(text: string, variables: Record<string, string>): Config {
  const loaded = loadConfig({ name: 'svc.yaml', directory: undefined, text }, { variables });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.mistakes));
  return loaded.config;
}

test('values from the environment are secret, literals in the file are not', () => {
  const loaded = config(
    'version: 1\nfunctions:\n  f:\n    runtime: node\n    file: functions/f.js\n    env:\n' +
      '      A: "${SVC_ENV_A}"\n      B: literal value\n      C: "prefix-${SVC_ENV_C:-fallback}"\n' +
      '      D: "${SVC_ENV_D}"\n',
    { SVC_ENV_A: 'value-of-a', SVC_ENV_D: 'tiny' },
  );
  expect([...secretValues(loaded)]).toEqual(['value-of-a', 'prefix-fallback']);
});
