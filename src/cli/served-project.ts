// Which project a command is about that works on what is served: that of production, or that of `svc dev` where no other
// database is named.
import {
  acceptProject,
  type Project,
  type ProjectOptions,
  readProject,
  type ReadProject,
} from './project.ts';
import type { Terminal } from './terminal.ts';

export type ServedMode = 'development' | 'production';

export type ReadServed = ReadProject & { readonly mode: ServedMode };

type ServedOptions = Pick<ProjectOptions, 'config' | 'unsetVariables'>;

/** Without a word about mistakes. */
export async function readServed(options: ServedOptions): Promise<ReadServed> {
  const production = await readProject({ ...options, mode: 'production' });
  const { SVC_DATABASE_URL: named = '' } = production.env;
  if (named !== '') return { ...production, mode: 'production' };
  return { ...(await readProject({ ...options, mode: 'development' })), mode: 'development' };
}

/** Shows what is wrong in the file, and throws for mistakes. */
export async function loadServed(
  options: Pick<ServedOptions, 'config'>,
  terminal: Terminal,
): Promise<Project> {
  const read = await readServed(options);
  return acceptProject(read, { mode: read.mode }, terminal);
}
