// Each case corresponds to an error of PostgreSQL, which test/migrate/policy-rings.pg.test.ts verifies.
import { expect, test } from 'vitest';
import { loadConfig } from '../../load.ts';
import { renderPath } from '../../mistakes/mistake.ts';
import { OPEN_RINGS, RINGS } from '../../../../test/migrate/policy-ring-cases.ts';

function warnings(text: string): string[] {
  const loaded = loadConfig(
    { name: 'svc.yaml', directory: undefined, text: `version: 1\n${text}` },
    { variables: {} },
  );
  if (!loaded.ok) throw new Error(loaded.mistakes.map(({ message }) => message).join('\n'));
  return loaded.warnings.filter(({ code }) => code === 'policy-ring').map(({ path }) => renderPath(path));
}

test.each(RINGS.map((ring) => [ring.what, ring] as const))('%s', (_what, { file, at }) => {
  expect(warnings(file)).toEqual(at);
});

test.each(OPEN_RINGS.map((ring) => [ring.what, ring] as const))('%s: no ring', (_what, { file }) => {
  expect(warnings(file)).toEqual([]);
});
