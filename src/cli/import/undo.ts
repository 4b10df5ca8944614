// `svc import supabase abandon` and `forget`: delete what an import has created.
import { existsSync } from 'node:fs';
import { Command } from 'commander';
import { forgetDump } from '../../import/dump.ts';
import { abandon } from '../../import/finish.ts';
import { requireDatabase } from '../environment.ts';
import { EXIT, failure } from '../exit.ts';
import { withOwner } from '../migrate/database.ts';
import { reporting } from '../report/reporting.ts';
import { ABANDONED, FORGOTTEN } from './results.ts';
import { dumpOptions, OWNER, requireYes, type ImportContext } from './source.ts';

export function abandonCommand({ terminal, environment }: ImportContext): Command {
  return reporting(
    new Command('abandon')
      .description('delete the imported users, rows and files, before a cut-over')
      .option('--yes', 'confirm the deletion'),
    terminal,
    ABANDONED,
    async (out, options: { yes?: boolean }) => {
      requireYes(options, 'this deletes the imported users, and all rows of the target tables');
      const env = environment();
      requireDatabase(env);
      await withOwner(env, process.cwd(), OWNER, (_owner, _admin, roles) => abandon(roles.owner.direct));
      out.print('All imported data is deleted. The tables are empty.');
      return { data: { abandoned: true } };
    },
  );
}

export function forgetCommand({ terminal, environment }: ImportContext): Command {
  return reporting(
    new Command('forget')
      .description('delete the database that was restored from a dump')
      .argument('<dump>', 'file or folder of the dump'),
    terminal,
    FORGOTTEN,
    async (out, dump: string) => {
      if (!existsSync(dump))
        throw failure(EXIT.misuse, `there is no file ${dump}`, 'Pass the file or folder of the dump.');
      const forgotten = await forgetDump(dump, dumpOptions(environment()));
      out.print(forgotten ? 'The database of the dump is deleted.' : 'There is no database of this dump.');
      return { data: { forgotten } };
    },
  );
}
