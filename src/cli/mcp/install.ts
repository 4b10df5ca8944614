// `svc mcp install <program>`: what its settings need. Printed, since they are somebody else's files.
import { Argument, Command } from 'commander';
import type { Terminal } from '../terminal.ts';

/** `--no-install`: where the project has no svc, npx must not fetch another package of that name. */
const RUN = { command: 'npx', args: ['--no-install', 'svc', 'mcp'] } as const;

type Program = { readonly file: string; readonly settings: object };

const PROGRAMS: Readonly<Record<string, Program>> = {
  claude: { file: '.mcp.json', settings: { mcpServers: { svc: RUN } } },
  cursor: { file: '.cursor/mcp.json', settings: { mcpServers: { svc: RUN } } },
  vscode: { file: '.vscode/mcp.json', settings: { servers: { svc: { type: 'stdio', ...RUN } } } },
};

export function installCommand(terminal: Terminal): Command {
  return new Command('install')
    .description('print the settings that a program needs to know svc mcp; writes nothing')
    .addArgument(new Argument('<program>', 'which one').choices(Object.keys(PROGRAMS)))
    .action((name: string) => {
      const program = PROGRAMS[name];
      if (!program) return;
      terminal.print(JSON.stringify(program.settings, undefined, 2));
      terminal.printError(`\nThis belongs into ${program.file} of the project.`);
    });
}
