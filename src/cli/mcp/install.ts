// `svc mcp install <program>`: prints the settings of the program. Does not write them, because the files
// belong to it.
import { Argument, Command } from 'commander';
import type { Terminal } from '../terminal.ts';

/** `--no-install`: if the project has no svc, npx must not fetch another package with that name. */
const RUN = { command: 'npx', args: ['--no-install', 'svc', 'mcp'] } as const;

type Program = { readonly file: string; readonly settings: object };

const PROGRAMS: Readonly<Record<string, Program>> = {
  claude: { file: '.mcp.json', settings: { mcpServers: { svc: RUN } } },
  cursor: { file: '.cursor/mcp.json', settings: { mcpServers: { svc: RUN } } },
  vscode: { file: '.vscode/mcp.json', settings: { servers: { svc: { type: 'stdio', ...RUN } } } },
};

export function installCommand(terminal: Terminal): Command {
  return new Command('install')
    .description('print the settings that connect a program to svc mcp; writes nothing')
    .addArgument(new Argument('<program>', 'program to connect').choices(Object.keys(PROGRAMS)))
    .action((name: string) => {
      const program = PROGRAMS[name];
      if (!program) return;
      terminal.print(JSON.stringify(program.settings, undefined, 2));
      terminal.printError(`\nAdd this to ${program.file} of the project.`);
    });
}
