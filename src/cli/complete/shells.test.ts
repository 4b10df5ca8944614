// Runs the scripts in the shells, with the installed program.
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';
import { SCRIPTS } from './scripts.ts';
import { scaled } from '../../../test/support/run/scaled.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-shells-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const launcher = fileURLToPath(new URL('../../../bin/svc.js', import.meta.url));
const svc = join(folder, 'svc');
writeFileSync(svc, `#!/bin/sh\nexec '${process.execPath}' '${launcher}' "$@"\n`);
chmodSync(svc, 0o755);
writeFileSync(join(folder, 'svc.yaml'), 'tables: { todos: { fields: [] } }\n');
writeFileSync(join(folder, 'two words.yaml'), '');

function isThere(shell: string): boolean {
  try {
    execFileSync(shell, ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

describe.skipIf(!isThere('bash'))('bash', () => {
  /** Returns the completions of these words. The last word is the one at the cursor. */
  const complete = (...words: string[]): string[] => {
    const program = `source <(svc complete bash)
      COMP_WORDS=(svc "$@"); COMP_CWORD=$#
      _svc; [[ \${#COMPREPLY[@]} -eq 0 ]] || printf '%s\\n' "\${COMPREPLY[@]}"`;
    const text = execFileSync('bash', ['--norc', '-c', program, 'bash', ...words], {
      cwd: folder,
      env: { ...process.env, PATH: `${folder}:${process.env['PATH'] ?? ''}` },
      encoding: 'utf8',
    });
    return text.split('\n').filter((line) => line !== '');
  };

  test.each<[string[], string[]]>([
    [['migr'], ['migrate']],
    [['migrate', 'ren'], ['rename']],
    [['migrate', 'rename', ''], ['todos']],
    [['validate', '--format', '=', 'sa'], ['sarif']],
    [['dev', '--config', 't'], ['two words.yaml']],
    [['nothing', ''], []],
  ])('%j', { timeout: scaled(60_000) }, (words, expected) => {
    expect(complete(...words)).toEqual(expected);
  });
});

describe.each(Object.entries(SCRIPTS))('%s', (shell, script) => {
  test.skipIf(!isThere(shell))('reads its script without an error', () => {
    const path = join(folder, `script.${shell}`);
    writeFileSync(path, script);
    expect(execFileSync(shell, ['-n', path], { encoding: 'utf8', stdio: 'pipe' })).toBe('');
  });
});
