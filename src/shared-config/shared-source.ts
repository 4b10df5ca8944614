// A row as a source of configuration: like a remote file, it has no directory, so nothing in it is relative to one.
import type { Config } from '../config/config.ts';
import { loadConfig } from '../config/load.ts';
import { renderPath, type Mistake } from '../config/mistakes/mistake.ts';
import type { Variables } from '../config/read/interpolate.ts';
import type { Source } from '../config/read/source.ts';
import { secretMask } from '../lib/secret-mask.ts';
import { Problem } from '../problem/problem.ts';
import type { ConfigRow } from './config-rows.ts';

export function toSource({ id, text }: Pick<ConfigRow, 'id' | 'text'>): Source {
  return { name: `configuration ${id} in the database`, directory: undefined, text };
}

/** Maximum number of mistakes in a reason. */
const MAX_MISTAKES = 3;

/** Throws `config_not_usable` with the mistakes in one line. */
export function loadRow(
  row: ConfigRow,
  options: { readonly variables: Variables; readonly strict?: boolean | undefined },
): Config {
  const loaded = loadConfig(toSource(row), options);
  if (loaded.ok) return loaded.config;
  throw new Problem('config_not_usable', 409, describeMistakes(loaded.mistakes));
}

function describeMistakes(mistakes: readonly Mistake[]): string {
  const errors = mistakes.filter(({ severity }) => severity === 'error');
  const shown = errors.slice(0, MAX_MISTAKES).map(({ path, message }) => `${renderPath(path)}: ${message}`);
  const more = errors.length - shown.length;
  return [...shown, ...(more > 0 ? [`and ${more} more`] : [])].join('; ');
}

/** Replaces values of variables by the references they came from: a reason is kept in the database. */
export function valueMask(text: string, variables: Variables): (shown: string) => string {
  const names = Array.from(text.matchAll(/\$\{([A-Za-z_]\w*)/g), ([, name = '']) => name);
  return secretMask(names.map((name) => [variables[name] ?? '', `\${${name}}`] as const));
}

/** Throws if a file depends on local files of one machine. */
export function assertShareable({ functions, functionsBundle }: Config): void {
  if (functions.length === 0 || (functionsBundle !== undefined && /^s3:/i.test(functionsBundle))) return;
  throw new Problem(
    'functions_not_shared',
    409,
    'This file declares code functions, and the database does not carry their sources',
    {
      hint:
        'Upload them with svc bundle and keep functions_bundle: s3://…#<sha256> in the file: ' +
        'every instance fetches them from there.',
    },
  );
}
