// `${VAR}` and `${VAR:-default}` in a value. SQL also uses dollar signs: `$1`, `$$` and `$body$` are not changed, and a
// dollar quote can begin directly before a brace.
import { closest } from '../../lib/text/closest-word.ts';

export type Variables = Readonly<Record<string, string | undefined>>;

export type Interpolation = {
  readonly text: string;
  readonly substituted: boolean;
  /** References by the value of the variable that replaced them. */
  readonly used: ReadonlyMap<string, string>;
  readonly failures: readonly InterpolationFailure[];
};

export type InterpolationFailure = {
  readonly code: 'missing-variable' | 'forbidden-variable';
  /** The reference as written. */
  readonly reference: string;
  readonly message: string;
  readonly hint: string;
};

export type InterpolationRules = {
  /** SQL text: text that only resembles a reference is left to PostgreSQL. */
  readonly sql: boolean;
  /** Code functions can only use variables with the prefix `SVC_ENV_`. */
  readonly functionEnv: boolean;
};

const WELL_FORMED = /^[A-Za-z_]\w*(?::-[\s\S]*)?$/;
const FUNCTION_VARIABLE = /^SVC_ENV_\w+$/;

export function interpolate(text: string, variables: Variables, rules: InterpolationRules): Interpolation {
  const failures: InterpolationFailure[] = [];
  const used = new Map<string, string>();
  let substituted = false;
  // Match all consecutive dollars: an odd number ends in a reference, an even number in an escaped `${`.
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
      message: `code functions can only use variables whose name starts with SVC_ENV_, not ${name}`,
      hint: `Rename the variable to SVC_ENV_${name} and write \${SVC_ENV_${name}} here.`,
    };
  }
  // As in a shell, the default after `:-` also replaces an empty variable.
  const value = Object.hasOwn(variables, name) ? variables[name] : undefined;
  if (value !== undefined && (value !== '' || fallback === undefined)) return value;
  if (fallback !== undefined) return fallback;
  const near = closest(name, Object.keys(variables));
  const suggestion = near === undefined ? '' : ` Did you mean ${near}?`;
  return {
    code: 'missing-variable',
    reference,
    message: `the environment has no variable ${name}`,
    hint: `Set it (in .env for development), or give a default: \${${name}:-…}.${suggestion}`,
  };
}
