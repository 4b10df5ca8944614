// What `svc dev` prints when it is ready: its addresses, both keys, and a request to try.
import type { ApiKeys } from '../../identity/api-key.ts';
import type { Project } from '../project.ts';
import type { Terminal } from '../terminal.ts';

export type BannerInput = {
  readonly project: Project;
  readonly keys: ApiKeys;
  readonly url: string;
  /** Undefined with a PostgreSQL of the user's own. */
  readonly postgresVersion: string | undefined;
  /** What the rows are a clone of. */
  readonly clone?: string | undefined;
  readonly readyInMs: number;
  readonly terminal: Terminal;
};

export function banner({
  project,
  keys,
  url,
  postgresVersion,
  clone,
  readyInMs,
  terminal,
}: BannerInput): string {
  const { style } = terminal;
  const database = postgresVersion ? `embedded PostgreSQL ${postgresVersion}` : 'SVC_DATABASE_URL';
  const lines = [
    '',
    `${style('green', '✓')} ${style('bold', project.config.project.name ?? project.source)} is ready in ${Math.round(readyInMs)} ms, on ${database}`,
    '',
    `  base URL         ${style('cyan', url)}`,
    `  dashboard        ${style('cyan', `${url}/dashboard`)}`,
    `  publishable key  ${keys.publishable}`,
    `  secret key       ${keys.secret}`,
    ...(clone === undefined ? [] : [`  data             ${clone}`]),
    '',
    '  Try it:',
    `    curl '${url}${samplePath(project)}' -H 'apikey: ${keys.publishable}'`,
    '',
    style(
      'dim',
      `  ${project.source}${project.overlay === undefined ? '' : ` with ${project.overlay}`} is watched; stop with Ctrl-C`,
    ),
    '',
  ];
  return lines.join('\n');
}

/** A path that answers with content: a new table has no rows, or none that the policies show. */
function samplePath({ config }: Project): string {
  const open = config.functions.find(({ authRequired }) => !authRequired);
  return open ? `/functions/v1/${open.name}` : '/auth/v1/settings';
}
