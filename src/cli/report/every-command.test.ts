// Tests that every command with a result has `--json`, with a declared shape.
import type { Command } from 'commander';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { createCommands, everyCommand } from '../commands.ts';
import type { Terminal } from '../terminal.ts';
import { commandName, reportShape } from './reporting.ts';

const quiet: Terminal = {
  color: false,
  print: () => {},
  printError: () => {},
  style: (_style, text) => text,
};

const WITHOUT: Readonly<Record<string, string>> = {
  psql: 'is a shell',
  dev: 'keeps running and writes a log',
  serve: 'keeps running and writes a log',
  receive: 'keeps running and writes a log',
  mcp: 'has its own protocol',
  'mcp install': 'prints settings of another program',
  schema: 'prints a JSON Schema',
  complete: 'prints a script',
  'complete words': 'is called by that script',
};

/** Returns whether the command does something itself, and does not only have sub-commands. */
const acts = (command: Command): boolean => '_actionHandler' in command && command['_actionHandler'] !== null;

test('every command with a result has a shape and the option --json', async () => {
  const commands = await everyCommand(
    createCommands(() => []),
    quiet,
  );
  const without = commands.filter((command) => acts(command) && reportShape(command) === undefined);
  expect(without.map(commandName).toSorted()).toEqual(Object.keys(WITHOUT).toSorted());
  const told = commands.filter((command) => reportShape(command) !== undefined);
  for (const command of told) {
    expect(
      command.options.map(({ long }) => long),
      commandName(command),
    ).toContain('--json');
    const shape = reportShape(command);
    expect(shape && z.toJSONSchema(shape), commandName(command)).toMatchObject({
      type: 'object',
      required: ['ok', 'command', 'version', 'data', 'problems'],
      properties: { command: { const: commandName(command) } },
    });
  }
});
