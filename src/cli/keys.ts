// `svc keys`: makes a key pair. Printed once and stored nowhere: keeping it is the operator's choice.
import { Command } from 'commander';
import type { Environment } from './environment.ts';
import { keyringCommands } from './keys-signing.ts';
import { generateApiKeys } from '../identity/api-key.ts';
import type { Terminal } from './terminal.ts';

export function keysCommand(terminal: Terminal, environment: () => Environment): Command {
  const command = new Command('keys')
    .description('make a pair of API keys; the sub-commands manage the keys that sign tokens')
    .addHelpText(
      'after',
      '\nExample:\n  svc keys >> .production.env\n\nThe publishable key may be in a browser. The secret key bypasses row-level security: keep it on servers.',
    )
    .action(() => {
      const keys = generateApiKeys();
      terminal.print(`SVC_PUBLISHABLE_KEY=${keys.publishable}\nSVC_SECRET_KEY=${keys.secret}`);
    });
  for (const child of keyringCommands(terminal, environment)) command.addCommand(child);
  return command;
}
