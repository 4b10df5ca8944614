// `svc init`: writes a first svc.yaml that works unchanged. Never overwrites a file.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { Command } from 'commander';
import { z } from 'zod';
import { packageName } from '../../lib/package-files.ts';
import { EXIT, failure } from '../exit.ts';
import { reporting } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';

const IGNORED = ['.svc/', '.env', '.*.env', 'node_modules/'];

const WRITTEN = z.strictObject({ file: z.string() });

export function initCommand(terminal: Terminal): Command {
  return reporting(
    new Command('init')
      .description('write a first svc.yaml')
      .argument('[directory]', 'directory of the file', '.'),
    terminal,
    WRITTEN,
    async (out, directory: string) => {
      const folder = resolve(directory);
      const file = join(folder, 'svc.yaml');
      if (existsSync(file)) {
        const hint = 'Edit it, or choose another directory: svc init <directory>';
        throw failure(EXIT.misuse, `${file} already exists`, hint);
      }
      mkdirSync(folder, { recursive: true });
      writeFileSync(file, starter(basename(folder)), { flag: 'wx' });
      addIgnored(join(folder, '.gitignore'));
      out.print(
        `wrote ${file}\n\nNext:\n  ${directory === '.' ? '' : `cd ${directory} && `}${callableName(process.env)} dev`,
      );
      return { data: { file } };
    },
  );
}

/**
 * Returns the command as the user can type it. PATH lacks a package that npx fetched or that is a
 * dependency of a project.
 */
export function callableName(env: NodeJS.ProcessEnv): string {
  if (env['npm_command'] === 'exec' || env['npm_lifecycle_event'] === 'npx') return `npx ${packageName()}`;
  return env['npm_lifecycle_event'] === undefined ? 'svc' : 'npx svc';
}

function addIgnored(file: string): void {
  const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
  const present = new Set(text.split('\n').map((line) => line.trim()));
  const missing = IGNORED.filter((line) => !present.has(line));
  if (missing.length === 0) return;
  const gap = text === '' || text.endsWith('\n') ? '' : '\n';
  writeFileSync(file, `${text}${gap}${missing.join('\n')}\n`);
}

function starter(name: string): string {
  return `# The whole backend. \`svc schema\` prints a JSON Schema that explains every key to editors;
# \`svc validate\` checks this file.
version: 1

project:
  name: ${JSON.stringify(name)}

tables:
  notes:
    fields:
      - { name: id, type: uuid, primary_key: true, default: uuid_v7() }
      - name: owner_id
        type: uuid
        required: true
        default: { sql: auth.uid() }
        foreign_key: { references: auth.users.id, on_delete: cascade }
      - { name: body, type: text, required: true }
      - { name: created_at, type: timestamptz, required: true, default: now() }
    indexes:
      - columns: [owner_id]
    # Each user sees and changes their own notes only. Without \`rls\` a table is open to everybody.
    rls:
      - operations: [select, insert, update, delete]
        using: owner_id = auth.uid()
        with_check: owner_id = auth.uid()
`;
}
