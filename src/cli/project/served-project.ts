// Chooses the project for commands that work on the served database: production, or `svc dev` if no other
// database is set.
import {
  acceptProject,
  type Project,
  type ProjectOptions,
  readProject,
  type ReadProject,
} from './project.ts';
import type { Terminal } from '../terminal.ts';

export type ServedMode = 'development' | 'production';

export type ReadServed = ReadProject & { readonly mode: ServedMode };

type ServedOptions = Pick<ProjectOptions, 'config' | 'unsetVariables'>;

/** Reads the project without printing or throwing mistakes. */
export async function readServed(options: ServedOptions): Promise<ReadServed> {
  const production = await readProject({ ...options, mode: 'production' });
  const { SVC_DATABASE_URL: named = '' } = production.env;
  if (named !== '') return { ...production, mode: 'production' };
  return { ...(await readProject({ ...options, mode: 'development' })), mode: 'development' };
}

/** Prints warnings of the file, and throws for mistakes. */
export async function loadServed(
  options: Pick<ServedOptions, 'config'>,
  terminal: Terminal,
): Promise<Project> {
  const read = await readServed(options);
  return acceptProject(read, { mode: read.mode }, terminal);
}
