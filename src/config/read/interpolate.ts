// `${VAR}` and `${VAR:-default}` in one value. SQL has dollar signs of its own: `$1`, `$$` and `$body$` are left
// alone, and a dollar quote may begin right before a brace.
import { closest } from '../../lib/text/closest-word.ts';

export type Variables = Readonly<Record<string, string | undefined>>;

export type Interpolation = {
  readonly text: string;
  readonly substituted: boolean;
  /** Values of variables that went into the text, by the reference that stands for each. */
  readonly used: ReadonlyMap<string, string>;
  readonly failures: readonly InterpolationFailure[];
};

export type InterpolationFailure = {
  readonly code: 'missing-variable' | 'forbidden-variable';
  /** The reference as it is written. */
  readonly reference: string;
  readonly message: string;
  readonly hint: string;
};

export type InterpolationRules = {
  /** SQL text: what only resembles a reference is left for PostgreSQL to judge. */
  readonly sql: boolean;
  /** Code functions are given `SVC_ENV_` variables and no others. */
  readonly functionEnv: boolean;
};

const WELL_FORMED = /^[A-Za-z_]\w*(?::-[\s\S]*)?$/;
const FUNCTION_VARIABLE = /^SVC_ENV_\w+$/;

export function interpolate(text: string, variables: Variables, rules: InterpolationRules): Interpolation {
  const failures: InterpolationFailure[] = [];
  const used = new Map<string, string>();
  let substituted = false;
  // The whole run of dollars matters: an odd one ends in a reference, an even one in an escaped `${`.
  const result = text.replaceAll(
    /(\$+)\{([^{}]*)(\}?)/g,
    (whole: string, run: string, inner: string, end: string) => {
      const wellFormed = end !== '' && WELL_FORMED.test(inner);
      if (!wellFormed && rules.sql) return whole;
      if (run.length % 2 === 0)
        return wellFormed ? `${run.slice(2)}\${${inner}}` : `${run.slice(2)}\${${inner}${end}`;
      const reference = `\${${inner}${end}`;
      if (!wellFormed) {
        failures.push({
          code: 'missing-variable',
          reference,
          message: `${reference} is not a reference`,
          hint: 'Write ${NAME} or ${NAME:-default} (no braces in the default); a literal ${ is written $${.',
        });
        return whole;
      }
      const found = resolveVariable(inner, reference, variables, rules);
      if (typeof found !== 'string') {
        failures.push(found);
        return whole;
      }
      substituted = true;
      if (found !== readFallback(inner)) used.set(found, reference);
      return run.slice(1) + found;
    },
  );
  return { text: result, substituted, used, failures };
}

function readFallback(inner: string): string | undefined {
  const separator = inner.indexOf(':-');
  return separator < 0 ? undefined : inner.slice(separator + 2);
}

function resolveVariable(
  inner: string,
  reference: string,
  variables: Variables,
  rules: InterpolationRules,
): string | InterpolationFailure {
  const name = inner.replace(/:-.*$/s, '');
  const fallback = readFallback(inner);
  if (rules.functionEnv && !FUNCTION_VARIABLE.test(name)) {
    return {
      code: 'forbidden-variable',
      reference,
      message: `code functions can only be given variables whose name starts with SVC_ENV_, not ${name}`,
      hint: `Call it SVC_ENV_${name} in the environment and write \${SVC_ENV_${name}} here.`,
    };
  }
  // As in a shell, `:-` also stands in for a variable that is set to nothing.
  const value = Object.hasOwn(variables, name) ? variables[name] : undefined;
  if (value !== undefined && (value !== '' || fallback === undefined)) return value;
  if (fallback !== undefined) return fallback;
  const near = closest(name, Object.keys(variables));
  return {
    code: 'missing-variable',
    reference,
    message: `the environment has no variable ${name}`,
    hint: `Set it (in .env for development), or give a default: \${${name}:-…}.${near === undefined ? '' : ` Did you mean ${near}?`}`,
  };
}
