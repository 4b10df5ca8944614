// Resolves the module specifiers of Deno and translates them for Node.

export type Resolved =
  | { readonly kind: 'as it is' }
  /** A file of the project. The path is relative to the folder of all functions. */
  | { readonly kind: 'file'; readonly path: string }
  /** A type-only module, which does not exist at run time. */
  | { readonly kind: 'drop' }
  | { readonly kind: 'shim' }
  | { readonly kind: 'package'; readonly name: string; readonly version: string; readonly path: string }
  | { readonly kind: 'by hand'; readonly why: string };

/**
 * `imports` of deno.json or an import map: exact names, and prefixes that end in a slash. Files are `file:` and their
 * path below the folder of all functions.
 */
export type ImportMap = Readonly<Record<string, string>>;

const PACKAGE = /^((?:@[\w.-]+\/)?[\w.-]+)(?:@([^/]+))?(\/.*)?$/;
const CDN = /^https:\/\/(?:esm\.sh|cdn\.skypack\.dev|unpkg\.com)\/(?:(?:stable|v\d+)\/)?([^?]+)(?:\?.*)?$/;
const SERVE = /^https:\/\/deno\.land\/std(?:@[\w.]+)?\/http\/(?:server|mod)\.ts$/;
/** Name of the client library on npm. */
const OF_NPM = '@supabase/supabase-js';

export function resolveSpecifier(specifier: string, map: ImportMap): Resolved {
  const said = fromMap(specifier, map);
  if (/^\.\.?\//.test(said) || said.startsWith('node:')) return { kind: 'as it is' };
  if (said.startsWith('file:')) return { kind: 'file', path: said.slice('file:'.length) };
  if (SERVE.test(said)) return { kind: 'shim' };
  if (said.endsWith('.d.ts')) return { kind: 'drop' };
  const npm = /^npm:\/?(.+)$/.exec(said)?.[1] ?? CDN.exec(said)?.[1];
  if (npm !== undefined) return fromPackage(npm, (name) => name);
  const jsr = /^jsr:\/?(.+)$/.exec(said)?.[1];
  if (jsr !== undefined) {
    if (jsr.startsWith('@supabase/functions-js')) return { kind: 'drop' };
    return fromPackage(jsr, (name) =>
      name === OF_NPM ? name : name.replace(/^@(.+)\/(.+)$/, '@jsr/$1__$2'),
    );
  }
  if (/^[a-z]+:/.test(said)) return { kind: 'by hand', why: `${said} has no counterpart in npm` };
  return { kind: 'by hand', why: `${said} is in no deno.json or import map` };
}

function fromMap(specifier: string, map: ImportMap): string {
  const exact = map[specifier];
  if (exact !== undefined) return exact;
  const prefix = Object.keys(map)
    .filter((prefix) => prefix.endsWith('/') && specifier.startsWith(prefix))
    .sort((a, b) => b.length - a.length)[0];
  return prefix === undefined ? specifier : `${map[prefix]}${specifier.slice(prefix.length)}`;
}

function fromPackage(text: string, rename: (name: string) => string): Resolved {
  const [, name, version = '*', path = ''] = PACKAGE.exec(text) ?? [];
  if (name === undefined) return { kind: 'by hand', why: `${text} is not a package name` };
  return { kind: 'package', name: rename(name), version, path };
}
