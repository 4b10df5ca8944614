// Every command that prints a result prints it with `--json` as one object, whose shape is declared.
import type { Command } from 'commander';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { commandsOf, everyCommand } from '../commands.ts';
import type { Terminal } from '../terminal.ts';
import { nameOf, reportShape } from './reporting.ts';

const quiet: Terminal = {
  color: false,
  print: () => {},
  printError: () => {},
  style: (_style, text) => text,
};

const WITHOUT: Readonly<Record<string, string>> = {
  psql: 'is a shell',
  dev: 'goes on, and writes a log',
  serve: 'goes on, and writes a log',
  receive: 'goes on, and writes a log',
  mcp: 'speaks a protocol of its own',
  'mcp install': 'prints settings of another program',
  schema: 'prints a JSON Schema',
  complete: 'prints a script',
  'complete words': 'is asked by that script',
};

/** Not those that only have others below them. */
const acts = (command: Command): boolean => '_actionHandler' in command && command['_actionHandler'] !== null;

test('each has a shape, and the option', async () => {
  const commands = await everyCommand(
    commandsOf(() => []),
    quiet,
  );
  const without = commands.filter((command) => acts(command) && reportShape(command) === undefined);
  expect(without.map(nameOf).toSorted()).toEqual(Object.keys(WITHOUT).toSorted());
  const told = commands.filter((command) => reportShape(command) !== undefined);
  for (const command of told) {
    expect(
      command.options.map(({ long }) => long),
      nameOf(command),
    ).toContain('--json');
    const shape = reportShape(command);
    expect(shape && z.toJSONSchema(shape), nameOf(command)).toMatchObject({
      type: 'object',
      required: ['ok', 'command', 'version', 'data', 'problems'],
      properties: { command: { const: nameOf(command) } },
    });
  }
});
