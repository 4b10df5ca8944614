// All commands by name, in the order of the help. A command loads only what it needs, so that the parent of several
// processes stays small.
import type { Command } from 'commander';
import { readVariables } from '../config/read/env-file.ts';
import type { SecretFile } from '../config/read/secret-files.ts';
import type { Terminal } from './terminal.ts';

type Load = (out: Terminal) => Promise<Command>;

export type Commands = Readonly<Record<string, Load>>;

const variables = (): NodeJS.ProcessEnv =>
  readVariables(process.cwd(), ['.env', '.development.env', '.production.env'], process.env);

/** `secretFiles`: files named by variables of the environment. */
export function createCommands(secretFiles: () => readonly SecretFile[]): Commands {
  const all: Commands = {
    init: async (out) => (await import('./init/init.ts')).initCommand(out),
    validate: async (out) => (await import('./validate/validate.ts')).validateCommand(out),
    dev: async (out) => (await import('./dev/dev.ts')).devCommand(out),
    serve: async (out) => (await import('./serve/serve.ts')).serveCommand(out),
    migrate: async (out) => (await import('./migrate/migrate.ts')).migrateCommand(out),
    db: async (out) => (await import('./database/db.ts')).dbCommand(out),
    sql: async (out) => (await import('./database/sql.ts')).sqlCommand(out),
    psql: async (out) => (await import('./database/psql.ts')).psqlCommand(out),
    refresh: async (out) => (await import('./database/refresh.ts')).refreshCommand(out),
    seed: async (out) => (await import('./database/seed.ts')).seedCommand(out),
    config: async (out) => (await import('./config/commands.ts')).configCommand(out),
    types: async (out) => (await import('./database/types.ts')).typesCommand(out),
    import: async (out) => (await import('./import/import.ts')).importCommand(out, variables),
    backup: async (out) => (await import('./backup/backup.ts')).backupCommand(out),
    restore: async (out) => (await import('./backup/restore.ts')).restoreCommand(out),
    clone: async (out) => (await import('./backup/clone.ts')).cloneCommand(out),
    keys: async (out) => (await import('./keys/keys.ts')).keysCommand(out, variables),
    doctor: async (out) => (await import('./doctor/doctor.ts')).doctorCommand(out, secretFiles),
    mail: async (out) => (await import('./mail/mail.ts')).mailCommand(out),
    mcp: async (out) => (await import('./mcp/mcp.ts')).mcpCommand(out),
    explain: async (out) => (await import('./docs/explain.ts')).explainCommand(out),
    schema: async (out) =>
      (await import('./schema/schema.ts')).schemaCommand(out, async () => await everyCommand(all, out)),
    functions: async (out) => (await import('./functions/functions.ts')).functionsCommand(out),
    schedules: async (out) => (await import('./schedules/schedules.ts')).schedulesCommand(out),
    bundle: async (out) => (await import('./bundle/bundle.ts')).bundleCommand(out),
    stamp: async (out) => (await import('./stamp/stamp.ts')).stampCommand(out),
    deploy: async (out) => (await import('./deploy/deploy.ts')).deployCommand(out),
    receive: async (out) => (await import('./deploy/deploy.ts')).receiveCommand(out),
    complete: async (out) =>
      (await import('./complete/complete.ts')).completeCommand(out, {
        names: Object.keys(all),
        load: async (name) => (Object.hasOwn(all, name) ? await all[name]?.(out) : undefined),
      }),
  };
  return all;
}

/** Returns all commands with their subcommands. */
export async function everyCommand(commands: Commands, out: Terminal): Promise<readonly Command[]> {
  const found: Command[] = [];
  const visit = (command: Command): void => {
    found.push(command);
    for (const child of command.commands) visit(child);
  };
  for (const load of Object.values(commands)) visit(await load(out));
  return found;
}
