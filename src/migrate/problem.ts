// Problems that the engine reports: a documented code, the place in the file and, if possible, a hint with the remedy.
import { groupBy } from '../lib/group-by.ts';

export type MigrationCode =
  | 'MIG-101'
  | 'MIG-111'
  | 'MIG-112'
  | 'MIG-113'
  | 'MIG-114'
  | 'MIG-115'
  | 'MIG-116'
  | 'MIG-118'
  | 'MIG-201'
  | 'MIG-202'
  | 'MIG-203'
  | 'MIG-204'
  | 'MIG-205'
  | 'MIG-206'
  | 'MIG-207'
  | 'MIG-208'
  | 'MIG-301'
  | 'MIG-302'
  | 'MIG-303'
  | 'MIG-304'
  | 'MIG-305'
  | 'MIG-401'
  | 'MIG-402'
  | 'MIG-501'
  | 'MIG-502'
  | 'MIG-601'
  | 'MIG-602'
  | 'MIG-603'
  | 'ADO-301';

/** Code of background work that did not finish, usually because of a lost connection. The work is retried. */
export const CONNECTION_LOST = 'MIG-502';

export type MigrationProblem = {
  readonly code: MigrationCode;
  /** Path in the file: `tables.todos.fields.title.required`. */
  readonly at: string;
  /** Position such as `svc.yaml:41:9`, or null if it is unknown. */
  readonly place: string | null;
  readonly message: string;
  readonly hint: string | null;
};

/** A refusal with all problems that were found, not only the first. */
export class MigrationRefused extends Error {
  readonly problems: readonly MigrationProblem[];

  constructor(problems: readonly MigrationProblem[]) {
    super(renderProblems(problems).join('\n'));
    this.name = 'MigrationRefused';
    this.problems = problems;
  }
}

export function problem(
  code: MigrationCode,
  at: string,
  message: string,
  hint: string | null = null,
): MigrationProblem {
  return { code, at, place: null, message, hint };
}

/** Adds the positions in the file to the problems. */
export function placed(
  problems: readonly MigrationProblem[],
  locate: (path: string) => string | null,
): MigrationProblem[] {
  return problems.map((refusal) => ({
    ...refusal,
    place: refusal.place ?? locate(refusal.at),
  }));
}

export function renderProblem({ code, at, place, message, hint }: MigrationProblem): string {
  const where = place === null ? at : `${place} ${at}`;
  return `${code} ${where}: ${message}${hint === null ? '' : `\n  → ${hint}`}`;
}

const MAX_LISTED_PLACES = 5;

/** Renders a mistake that occurs in many places once, with the first places. */
export function renderProblems(problems: readonly MigrationProblem[]): string[] {
  const groups = groupBy(problems, ({ code, message, hint }) => JSON.stringify([code, message, hint]));
  return [...groups.values()].map(([first, ...more]) => {
    if (more.length === 0) return renderProblem(first);
    const places = more.slice(0, MAX_LISTED_PLACES).map((item) => item.place ?? item.at);
    const rest = more.length - places.length;
    return `${renderProblem(first)}\n  the same at ${places.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
  });
}
