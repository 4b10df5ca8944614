// `svc import supabase`: moves a Supabase project into the database of SVC_DATABASE_URL, stage by stage.
import { Command } from 'commander';
import type { Environment } from '../environment.ts';
import type { Terminal } from '../terminal.ts';
import { changesCommand, copyCommand, cutOverCommand, verifyCommand } from './copy.ts';
import { filesCommand } from './files.ts';
import { functionsCommand } from './functions.ts';
import { prepareCommand, reportCommand } from './report.ts';
import { abandonCommand, forgetCommand } from './undo.ts';

/** Commands in the order of a move. */
const COMMANDS = [
  prepareCommand,
  copyCommand,
  filesCommand,
  functionsCommand,
  verifyCommand,
  cutOverCommand,
  abandonCommand,
  changesCommand,
  forgetCommand,
];

/** Returns the command. `environment` is read when a command runs. */
export function importCommand(terminal: Terminal, environment: () => Environment): Command {
  const context = { terminal, environment };
  const supabase = new Command('supabase').description('move a Supabase project into SVC_DATABASE_URL');
  supabase.addCommand(reportCommand(context), { isDefault: true });
  for (const create of COMMANDS) supabase.addCommand(create(context));
  return new Command('import').description('import a project of another product').addCommand(supabase);
}
