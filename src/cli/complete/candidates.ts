// Finds completions for the word at the cursor in the definitions of the commands, so that new options need
// no code here.
import type { Argument, Command, Option } from 'commander';

export type Candidate = { readonly value: string; readonly description: string };

export type Candidates = {
  readonly found: readonly Candidate[];
  /** True if file names are possible. The shell completes them. */
  readonly files: boolean;
};

/** Returns the project's names for an option or argument, or undefined if it takes other values. */
export type ProjectNames = (
  /** Place of the name, such as `migrate rename <path>` or `sql --as`. */
  place: string,
  options: ReadonlyMap<string, string>,
) => readonly string[] | undefined;

export type Completion = {
  /** Names of the commands, in the order of the help. */
  readonly names: readonly string[];
  readonly load: (name: string) => Promise<Command | undefined>;
  readonly projectNames: ProjectNames;
};

const NOTHING: Candidates = { found: [], files: false };
/** Names of options and arguments that take a path. */
const PATHS = /^(file|files|location|directory|folder|path|place|plan|backup)$/;

/** Completes the last of `words`, the words after `svc`. It may be empty. */
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

/** Joins `--format=json`, which bash splits into three words. */
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
      given.set(optionFlag(pending), word);
      if (!pending.variadic) pending = undefined;
      continue;
    }
    pending = undefined;
    if (word === '--') onlyOperands = true;
    else if (word.startsWith('-') && word.length > 1 && !onlyOperands) {
      const [flag = '', value] = word.split('=', 2);
      const option = visibleOptions(command).find(({ long, short }) => long === flag || short === flag);
      if (!option) continue;
      given.set(optionFlag(option), value ?? '');
      if (value === undefined && (option.required || option.optional)) pending = option;
    } else {
      const next =
        operands === 0 ? visibleSubcommands(command).find((child) => child.name() === word) : undefined;
      if (next) {
        command = next;
        place = `${place} ${next.name()}`;
      } else operands += 1;
    }
  }
  if (pending?.required === true && !current.startsWith('-')) {
    return matching(optionCandidates(pending, place, given, projectNames), current);
  }
  const assigned = /^(--[\w-]+)=(.*)$/s.exec(current);
  if (assigned && !onlyOperands) {
    const [, flag = '', value = ''] = assigned;
    const option = visibleOptions(command).find(({ long }) => long === flag);
    if (!option) return NOTHING;
    const { found } = matching(optionCandidates(option, place, given, projectNames), value);
    return {
      found: found.map((candidate) => ({ ...candidate, value: `${flag}=${candidate.value}` })),
      files: false,
    };
  }
  if (current.startsWith('-') && !onlyOperands) {
    const options = visibleOptions(command).filter(
      (option) => option.variadic || !given.has(optionFlag(option)),
    );
    return matching(
      options.map((option) => ({ value: optionFlag(option), description: option.description })),
      current,
    );
  }
  const taken = argumentCandidates(command, operands, place, given, projectNames);
  const subcommands =
    operands === 0 && !onlyOperands
      ? visibleSubcommands(command).map((child) => ({
          value: child.name(),
          description: child.description(),
        }))
      : [];
  return matching({ found: [...subcommands, ...taken.found], files: taken.files }, current);
}

function optionCandidates(
  option: Option,
  place: string,
  given: ReadonlyMap<string, string>,
  projectNames: ProjectNames,
): Candidates {
  const known = option.argChoices ?? projectNames(`${place} ${optionFlag(option)}`, given);
  if (known) return { found: known.map(named), files: false };
  const value = /[<[]([\w-]+)/.exec(option.flags)?.[1] ?? '';
  return { found: [], files: PATHS.test(value) };
}

function argumentCandidates(
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

function visibleOptions(command: Command): Option[] {
  return command.createHelp().visibleOptions(command);
}

function visibleSubcommands(command: Command): Command[] {
  return command.commands.length === 0 ? [] : command.createHelp().visibleCommands(command);
}

function optionFlag({ long, short }: Option): string {
  return long ?? short ?? '';
}

function named(value: string): Candidate {
  return { value, description: '' };
}

function matching(all: Candidates | readonly Candidate[], current: string): Candidates {
  const { found, files } = 'files' in all ? all : { found: all, files: false };
  return { found: found.filter(({ value }) => value.startsWith(current)), files };
}
