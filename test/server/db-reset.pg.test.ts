// Commands for the development database: the keys that sign its tokens, and `svc db reset`, which removes
// nothing else.
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@supabase/supabase-js';
import { expect, test } from 'vitest';
import { runSvc, startSvc } from '../support/svc-process.ts';

const YAML = `version: 1
tables: { notes: { fields: [{ name: id, type: bigserial, primary_key: true }],
    rls: [{ operations: [select, insert], check: 'true' }] } }
`;

test('not while it is used, not without a yes, and then wholly', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-reset-'));
  const config = join(folder, 'svc.yaml');
  writeFileSync(config, YAML);
  const reset = (...args: readonly string[]) => runSvc(['db', 'reset', '--config', config, ...args], {});
  const notes = async (url: string, key: string): Promise<number | undefined> => {
    const { data } = await createClient(url, key).from('notes').select('id');
    return data?.length;
  };
  try {
    expect((await reset('--yes')).output).toContain('there is no development database');
    const first = await startSvc({ command: 'dev', config });
    await createClient(first.url, first.publishableKey).from('notes').insert({});
    expect(await notes(first.url, first.publishableKey)).toBe(1);
    expect((await reset('--yes')).output).toContain('Stop it');
    await first.stop();
    expect((await reset()).output).toContain('Use --yes');
    expect(existsSync(join(folder, '.svc/postgres'))).toBe(true);
    const elsewhere = await runSvc(['db', 'reset', '--yes', '--config', config], {
      env: { SVC_DATABASE_URL: 'postgres://app@127.0.0.1:1/app' },
    });
    expect([elsewhere.code, elsewhere.output]).toEqual([
      2,
      expect.stringContaining('not the database of svc dev'),
    ]);
    const done = await reset('--yes');
    expect([done.code, done.output]).toEqual([0, expect.stringContaining('removed')]);
    const second = await startSvc({ command: 'dev', config });
    // The same keys, nothing else.
    expect(second.publishableKey).toBe(first.publishableKey);
    expect(await notes(second.url, second.publishableKey)).toBe(0);
    await second.stop();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test('svc keys works on the development database, running or not', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-keys-'));
  const config = join(folder, 'svc.yaml');
  writeFileSync(config, YAML);
  const keys = (...args: readonly string[]) => runSvc(['keys', ...args], { cwd: folder });
  try {
    expect(await keys('list')).toMatchObject({ output: expect.stringContaining('run svc dev first') });
    const svc = await startSvc({ command: 'dev', config });
    expect((await keys('list')).output).toMatch(/ES256 {2}in.use/);
    await svc.stop();
    expect((await keys('rotate', '--now')).output).toContain('signs from now on');
    expect((await keys('list')).output.trim().split('\n')).toHaveLength(2);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
