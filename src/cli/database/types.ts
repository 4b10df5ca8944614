// `svc types`: writes the TypeScript types of the backend, for `createClient<Database>()`.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Command } from 'commander';
import { z } from 'zod';
import { introspect } from '../../catalog/introspect.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import type { Config } from '../../config/config.ts';
import { renderTypes, typedSchemas } from '../../typegen/typescript.ts';
import { withOwner } from '../migrate/database.ts';
import { loadProject } from '../project/project.ts';
import { reporting } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';

/** `text`: the types, if they are not written to a file. */
const TYPED = z.strictObject({
  file: z.string().nullable(),
  changed: z.boolean(),
  text: z.string().nullable(),
});

export function typesCommand(terminal: Terminal): Command {
  const command = new Command('types')
    .description('print the TypeScript types of tables, views and SQL functions, for supabase-js')
    .option('-c, --config <location>', 'the configuration file')
    .option('--out <file>', 'write to this file instead of the terminal');
  return reporting(
    command,
    terminal,
    TYPED,
    async (said, { config: named, out }: { config?: string; out?: string }) => {
      const project = await loadProject({ config: named, mode: 'development' }, said);
      const { config, env, directory } = project;
      const catalog = await withOwner(env, directory, { applicationName: 'svc-types', max: 1 }, (owner) =>
        introspect(owner, typedSchemas(config)),
      );
      if (out === undefined) {
        const text = renderTypes({ config, catalog });
        said.print(text.trimEnd());
        return { data: { file: null, changed: false, text } };
      }
      const changed = await writeTypes(out, config, catalog);
      said.print(changed ? `wrote ${out}` : `${out} is up to date`);
      return { data: { file: out, changed, text: null } };
    },
  );
}

/**
 * Writes the types for `svc dev --types <file>`, after every reload. Keeps an unchanged file, which build
 * tools watch.
 */
export async function writeTypes(file: string, config: Config, catalog: Catalog): Promise<boolean> {
  const text = renderTypes({ config, catalog });
  const before = await readFile(file, 'utf8').catch(() => null);
  if (before === text) return false;
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, text);
  return true;
}
