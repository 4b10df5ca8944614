// What can stand where the cursor is, read off the commands themselves: a new option is completed without a line here.
import type { Argument, Command, Option } from 'commander';

export type Candidate = { readonly value: string; readonly description: string };

export type Candidates = {
  readonly found: readonly Candidate[];
  /** Names of files can stand there; the shell knows them better. */
  readonly files: boolean;
};

/** Names of the project that an option or argument takes; undefined where it takes something else. */
export type ProjectNames = (
  /** `migrate rename <path>`, `sql --as` */
  place: string,
  options: ReadonlyMap<string, string>,
) => readonly string[] | undefined;

export type Completion = {
  /** Of the commands, in the order of the help. */
  readonly names: readonly string[];
  readonly load: (name: string) => Promise<Command | undefined>;
  readonly projectNames: ProjectNames;
};

const NOTHING: Candidates = { found: [], files: false };
/** What an option or argument is called that takes a path. */
const PATHS = /^(file|files|location|directory|folder|path|place|plan|backup)$/;

/** `words`: what follows `svc`, the last one being typed (or empty). */
export async function candidates(words: readonly string[], completion: Completion): Promise<Candidates> {
  const [first = '', ...others] = joined(words);
  if (others.length === 0) {
    const known = first.startsWith('-') ? ['--help', '--version'] : [...completion.names, 'help'];
    return matching(known.map(named), first);
  }
  if (first === 'help')
    return others.length === 1 ? matching(completion.names.map(named), others[0] ?? '') : NOTHING;
  const command = await completion.load(first);
  return command ? inCommand(command, others, completion.projectNames) : NOTHING;
}

/** bash takes `--format=json` for three words. */
function joined(words: readonly string[]): string[] {
  const result: string[] = [];
  for (const [at, word] of words.entries()) {
    if (word === '=' && (result.at(-1) ?? '').startsWith('--')) {
      if (at === words.length - 1) result.push('');
    } else result.push(word);
  }
  return result;
}

function inCommand(root: Command, words: readonly string[], projectNames: ProjectNames): Candidates {
  const current = words.at(-1) ?? '';
  const given = new Map<string, string>();
  let command = root;
  let place = root.name();
  let pending: Option | undefined;
  let operands = 0;
  let onlyOperands = false;
  for (const word of words.slice(0, -1)) {
    if (pending && !word.startsWith('-')) {
      given.set(flagOf(pending), word);
      if (!pending.variadic) pending = undefined;
      continue;
    }
    pending = undefined;
    if (word === '--') onlyOperands = true;
    else if (word.startsWith('-') && word.length > 1 && !onlyOperands) {
      const [flag = '', value] = word.split('=', 2);
      const option = optionsOf(command).find((one) => one.long === flag || one.short === flag);
      if (!option) continue;
      given.set(flagOf(option), value ?? '');
      if (value === undefined && (option.required || option.optional)) pending = option;
    } else {
      const next = operands === 0 ? subcommandsOf(command).find((one) => one.name() === word) : undefined;
      if (next) {
        command = next;
        place = `${place} ${next.name()}`;
      } else operands += 1;
    }
  }
  if (pending?.required === true && !current.startsWith('-')) {
    return matching(ofOption(pending, place, given, projectNames), current);
  }
  const assigned = /^(--[\w-]+)=(.*)$/s.exec(current);
  if (assigned && !onlyOperands) {
    const [, flag = '', value = ''] = assigned;
    const option = optionsOf(command).find(({ long }) => long === flag);
    if (!option) return NOTHING;
    const { found } = matching(ofOption(option, place, given, projectNames), value);
    return { found: found.map((one) => ({ ...one, value: `${flag}=${one.value}` })), files: false };
  }
  if (current.startsWith('-') && !onlyOperands) {
    const options = optionsOf(command).filter((one) => one.variadic || !given.has(flagOf(one)));
    return matching(
      options.map((one) => ({ value: flagOf(one), description: one.description })),
      current,
    );
  }
  const taken = ofArgument(command, operands, place, given, projectNames);
  const subcommands =
    operands === 0 && !onlyOperands
      ? subcommandsOf(command).map((one) => ({ value: one.name(), description: one.description() }))
      : [];
  return matching({ found: [...subcommands, ...taken.found], files: taken.files }, current);
}

function ofOption(
  option: Option,
  place: string,
  given: ReadonlyMap<string, string>,
  projectNames: ProjectNames,
): Candidates {
  const known = option.argChoices ?? projectNames(`${place} ${flagOf(option)}`, given);
  if (known) return { found: known.map(named), files: false };
  const value = /[<[]([\w-]+)/.exec(option.flags)?.[1] ?? '';
  return { found: [], files: PATHS.test(value) };
}

function ofArgument(
  command: Command,
  operands: number,
  place: string,
  given: ReadonlyMap<string, string>,
  projectNames: ProjectNames,
): Candidates {
  const { registeredArguments } = command;
  const last = registeredArguments.at(-1);
  const argument: Argument | undefined =
    registeredArguments[operands] ?? (last?.variadic === true ? last : undefined);
  if (!argument) return NOTHING;
  const known = argument.argChoices ?? projectNames(`${place} <${argument.name()}>`, given);
  if (known) return { found: known.map(named), files: false };
  return { found: [], files: PATHS.test(argument.name()) };
}

function optionsOf(command: Command): Option[] {
  return command.createHelp().visibleOptions(command);
}

function subcommandsOf(command: Command): Command[] {
  return command.commands.length === 0 ? [] : command.createHelp().visibleCommands(command);
}

function flagOf({ long, short }: Option): string {
  return long ?? short ?? '';
}

function named(value: string): Candidate {
  return { value, description: '' };
}

function matching(all: Candidates | readonly Candidate[], current: string): Candidates {
  const { found, files } = 'files' in all ? all : { found: all, files: false };
  return { found: found.filter(({ value }) => value.startsWith(current)), files };
}
