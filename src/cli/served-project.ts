// Which project a command is about that works on what is served: that of production, or that of `svc dev` where no other database is named.
import { acceptProject, loadProject, type Project, type ProjectOptions, readProject } from './project.ts';
import type { Terminal } from './terminal.ts';

export async function loadServed(
  options: Pick<ProjectOptions, 'config'>,
  terminal: Terminal,
): Promise<Project> {
  const production = { ...options, mode: 'production' as const };
  const read = await readProject(production);
  const { SVC_DATABASE_URL: named = '' } = read.env;
  return named === ''
    ? await loadProject({ ...options, mode: 'development' }, terminal)
    : acceptProject(read, production, terminal);
}
