// Finds specifiers of imports and uses of `Deno` in a module, without parsing it. Comments and the content of strings
// are ignored.

export type Specifier = {
  readonly text: string;
  /** Between its quotes. */
  readonly start: number;
  readonly end: number;
  /** Range of an import without names, which is loaded for its side effects. Undefined for other imports. */
  readonly bare: { readonly from: number; readonly to: number } | undefined;
  /** True if the import disappears with the types. */
  readonly isType: boolean;
};

export type DenoUse = { readonly member: string; readonly line: number };

/** Returns a text of the same length: comments become spaces, and characters in quotes become `_`. */
function mask(text: string): string {
  const out = text.split('');
  const cover = (from: number, to: number, by: string): void => {
    for (let at = from; at < to && at < out.length; at += 1) if (out[at] !== '\n') out[at] = by;
  };
  let before = '';
  for (let at = 0; at < text.length;) {
    const character = text[at] ?? '';
    const end = findTokenEnd(text, at, before);
    if (end === undefined) {
      if (character.trim() !== '') before = character;
      at += 1;
    } else if (text.startsWith('//', at) || text.startsWith('/*', at)) {
      cover(at, end, ' ');
      at = end;
    } else {
      cover(at + 1, end - 1, '_');
      before = '"';
      at = end;
    }
  }
  return out.join('');
}

/** Returns the end of a comment, string, template or regular expression at `at`, or undefined. */
function findTokenEnd(text: string, at: number, before: string): number | undefined {
  const rest = (pattern: RegExp): number => {
    pattern.lastIndex = at;
    return at + (pattern.exec(text)?.[0].length ?? 1);
  };
  switch (text[at]) {
    case '"':
      return rest(/"(?:[^"\\\n]|\\[\s\S])*"?/y);
    case "'":
      return rest(/'(?:[^'\\\n]|\\[\s\S])*'?/y);
    case '`':
      return rest(/`(?:[^`\\]|\\[\s\S])*`?/y);
    case '/':
      if (text[at + 1] === '/') return rest(/\/\/[^\n]*/y);
      if (text[at + 1] === '*') return rest(/\/\*[\s\S]*?(?:\*\/|$)/y);
      // A slash starts a regular expression where an expression may start.
      if (before === '' || '(,=:[!&|?{};+>'.includes(before))
        return rest(/\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y);
      return undefined;
    default:
      return undefined;
  }
}

const FROM = /\b(?:import|export)\b(?<what>[^;'"`()]*?)\bfrom\s*(?<quote>['"])(?<name>_*)['"]/g;
const BARE = /\bimport\s*(?<quote>['"])(?<name>_*)['"];?/g;
const DYNAMIC = /\bimport\s*\(\s*(?<quote>['"])(?<name>_*)['"]/g;

export function findSpecifiers(text: string): readonly Specifier[] {
  const masked = mask(text);
  return [FROM, BARE, DYNAMIC]
    .flatMap((pattern) =>
      [...masked.matchAll(pattern)].map((match): Specifier => {
        const whole = match[0];
        const length = match.groups?.['name']?.length ?? 0;
        const end = match.index + whole.lastIndexOf(match.groups?.['quote'] ?? '"');
        return {
          text: text.slice(end - length, end),
          start: end - length,
          end,
          bare: pattern === BARE ? { from: match.index, to: match.index + whole.length } : undefined,
          isType: /^\s*type\s+[^,]/.test(match.groups?.['what'] ?? ''),
        };
      }),
    )
    .sort((a, b) => a.start - b.start);
}

/** `env.get`, `readFile` and so on, in their order. */
export function denoUses(text: string): readonly DenoUse[] {
  return [...withTemplates(text).matchAll(/(?<![\w$.])Deno\s*(?:\?\s*)?\.\s*(\w+)/g)].map((match) => ({
    member: match[1] ?? '',
    line: lineNumber(text, match.index),
  }));
}

/** Masks templates, too, but keeps the code in them. */
function withTemplates(text: string): string {
  const masked = mask(text);
  return masked.replaceAll(/`_*`/g, (template, at: number) => text.slice(at, at + template.length));
}

/** Returns the names of variables read with `Deno.env.get`. */
export function findVariables(text: string): readonly string[] {
  const found = [...text.matchAll(/\bDeno\s*\.\s*env\s*\.\s*get\(\s*['"]([A-Za-z_]\w*)['"]/g)];
  return [...new Set(found.map(([, name]) => name ?? ''))];
}

export const lineNumber = (text: string, at: number): number => text.slice(0, at).split('\n').length;
