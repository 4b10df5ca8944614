// `svc complete <shell>`: completion of commands, options and names of the project.
import { Argument, Command } from 'commander';
import type { Terminal } from '../terminal.ts';
import { candidates, type Completion } from './candidates.ts';
import { projectNames } from './project-names.ts';
import { SCRIPTS } from './scripts.ts';

export function completeCommand(terminal: Terminal, commands: Omit<Completion, 'projectNames'>): Command {
  const command = new Command('complete')
    .description('print the script that completes commands in bash, zsh or fish')
    .addArgument(new Argument('<shell>', 'shell that reads the script').choices(Object.keys(SCRIPTS)))
    .addHelpText(
      'after',
      `
In bash:  echo 'source <(svc complete bash)' >> ~/.bashrc
In zsh:   echo 'source <(svc complete zsh)' >> ~/.zshrc    (after compinit)
In fish:  svc complete fish > ~/.config/fish/completions/svc.fish`,
    )
    .action((shell: string) => terminal.print(SCRIPTS[shell] ?? ''));
  // Called by the scripts, with the words after `svc`. The last word is the one at the cursor.
  command
    .command('words', { hidden: true })
    .argument('[words...]')
    .action(async (words: string[]) => {
      const { found, files } = await candidates(words, { ...commands, projectNames });
      const lines = found.map(({ value, description }) => `${value}\t${description.replaceAll(/\s+/g, ' ')}`);
      if (files) lines.push(':files');
      if (lines.length > 0) terminal.print(lines.join('\n'));
    });
  return command;
}
