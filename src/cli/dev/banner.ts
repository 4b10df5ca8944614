// The text that `svc dev` prints when it is ready: its URLs, both keys, and a sample request.
import type { ApiKeys } from '../../identity/api-key.ts';
import type { Project } from '../project/project.ts';
import type { Terminal } from '../terminal.ts';
import { sampleRequest } from './sample-request.ts';

export type BannerInput = {
  readonly project: Project;
  readonly keys: ApiKeys;
  readonly url: string;
  /** Undefined if the user runs the PostgreSQL server. */
  readonly postgresVersion: string | undefined;
  /** Source of a cloned database. */
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
    `${style('green', '✓')} ${style('bold', project.config.project.name ?? project.source)} is ready ` +
      `in ${Math.round(readyInMs)} ms, on ${database}`,
    '',
    `  base URL         ${style('cyan', url)}`,
    `  dashboard        ${style('cyan', `${url}/dashboard`)}`,
    `  publishable key  ${keys.publishable}`,
    `  secret key       ${keys.secret}`,
    ...(clone === undefined ? [] : [`  data             ${clone}`]),
    '',
    '  Try it:',
    `    curl '${url}${sampleRequest(project.config, project.directory)}' -H 'apikey: ${keys.publishable}'`,
    '',
    style(
      'dim',
      `  ${project.source}${project.overlay === undefined ? '' : ` with ${project.overlay}`} is watched; ` +
        'stop with Ctrl-C',
    ),
    '',
  ];
  return lines.join('\n');
}
