// What the engine refuses, and why. Every entry has a code that is documented, the place in the file it is
// about, and where there is one the line to add.

export type MigrationCode =
  | 'MIG-101'
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
  | 'MIG-403'
  | 'MIG-404'
  | 'MIG-501'
  | 'MIG-502';

export type MigrationProblem = {
  readonly code: MigrationCode;
  /** Path in the file: `tables.todos.fields.title.required`. */
  readonly at: string;
  /** `svc.yaml:41:9` where the file's positions are known. */
  readonly place: string | null;
  readonly message: string;
  readonly hint: string | null;
};

/** A refusal carries everything that was found, not only the first. */
export class MigrationRefused extends Error {
  readonly problems: readonly MigrationProblem[];

  constructor(problems: readonly MigrationProblem[]) {
    super(problems.map(renderProblem).join('\n'));
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

export function renderProblem({ code, at, place, message, hint }: MigrationProblem): string {
  const where = place === null ? at : `${place} ${at}`;
  return `${code} ${where}: ${message}${hint === null ? '' : `\n  → ${hint}`}`;
}
