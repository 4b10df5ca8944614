// Converts Edge Functions to code functions. Files are copied with specifiers for Node, next to a module that
// replaces the used parts of Deno. The report lists what cannot be converted by file and line, and leaves out its
// function.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, posix, relative, sep } from 'node:path';
import { editText } from '../../config/edit/edit.ts';
import { Problem } from '../../problem/problem.ts';
import { denoUses, lineNumber, findSpecifiers, findVariables } from './read-code.ts';
import { HAS, SHIM } from './shim.ts';
import { resolveSpecifier, type ImportMap } from './specifiers.ts';

export type ConvertOptions = {
  /** `supabase/functions` of the project. */
  readonly from: string;
  /** Path of svc.yaml, where the functions are declared. */
  readonly file: string;
};

export type Converted = {
  readonly functions: ReadonlyArray<{ readonly name: string; readonly authRequired: boolean }>;
  /** Variables to set as `SVC_ENV_…`. */
  readonly variables: readonly string[];
  readonly byHand: ReadonlyArray<{ readonly name: string; readonly reasons: readonly string[] }>;
  /** Needed in functions/package.json, by name. */
  readonly dependencies: Readonly<Record<string, string>>;
};

const CODE = /\.(?:ts|js|mjs|tsx|jsx)$/;
const ENTRIES = ['index.ts', 'index.js', 'index.mjs'];
/** The shim has these from the server. */
const OWN_VARIABLES = new Set(['SUPABASE_URL', 'SUPABASE_ANON_KEY']);

/** Converts functions. Rejects a function whose file exists already. */
export function convertFunctions({ from, file }: ConvertOptions): Converted {
  if (!existsSync(from) || !statSync(from).isDirectory()) {
    throw new Problem('IMP-408', 500, `There is no directory ${from}`, {
      hint: 'Name the directory supabase/functions of the project.',
    });
  }
  const names = readdirSync(from, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !/^[_.]/.test(entry.name) && entry.name !== 'node_modules')
    .map(({ name }) => name)
    .sort();
  const root = join(dirname(file), 'functions');
  const settings = readSettings(join(from, '..', 'config.toml'));
  const functions: Array<{ name: string; authRequired: boolean }> = [];
  const byHand: Array<{ name: string; reasons: readonly string[] }> = [];
  const dependencies: Record<string, string> = {};
  const variables = new Set<string>();
  let declared = readFileSync(file, 'utf8');
  for (const name of names) {
    const entry = ENTRIES.find((file) => existsSync(join(from, name, file)));
    const converted = entry === undefined ? undefined : readFunction(from, name);
    const reasons =
      converted === undefined
        ? ['it has no index.ts']
        : existsSync(join(root, `${name}.js`))
          ? ['functions/' + name + '.js is there already']
          : converted.reasons;
    if (converted === undefined || reasons.length > 0) {
      byHand.push({ name, reasons });
      continue;
    }
    const home = join(root, '_edge', name);
    for (const [path, text] of converted.files) write(join(home, 'source', path), text);
    for (const path of converted.others) {
      mkdirSync(dirname(join(home, 'source', path)), { recursive: true });
      cpSync(join(from, path), join(home, 'source', path));
    }
    write(join(home, 'deno.js'), SHIM);
    write(join(root, `${name}.js`), renderWrapper(name, `${name}/${entry}`));
    const authRequired = settings.get(name) ?? true;
    const env = converted.variables.filter((variable) => !OWN_VARIABLES.has(variable));
    const value = {
      runtime: 'node',
      file: `functions/${name}.js`,
      ...(authRequired ? { auth_required: true } : {}),
      ...(env.length > 0
        ? { env: Object.fromEntries(env.map((variable) => [variable, `\${SVC_ENV_${variable}}`])) }
        : {}),
    };
    declared = editText(declared, [{ kind: 'add', path: ['functions', name], value }]);
    for (const one of env) variables.add(one);
    for (const [dependency, version] of converted.dependencies) dependencies[dependency] ??= version;
    functions.push({ name, authRequired });
  }
  if (functions.length > 0) {
    writeFileSync(file, declared);
    writeManifest(root, dependencies);
  }
  return { functions, variables: [...variables].sort(), byHand, dependencies };
}

type Read = {
  /** Keyed by the path below the folder of all functions. */
  readonly files: ReadonlyMap<string, string>;
  /** No code. */
  readonly others: readonly string[];
  readonly reasons: readonly string[];
  readonly variables: readonly string[];
  readonly dependencies: ReadonlyMap<string, string>;
};

/** Reads a function with its shared files, which keep their relative position. */
function readFunction(from: string, name: string): Read {
  const map: ImportMap = { ...readMap(from, '.'), ...readMap(from, name) };
  const shared = readdirSync(from, { withFileTypes: true })
    .filter((entry) => entry.name.startsWith('_') && entry.isDirectory())
    .flatMap((entry) => listFiles(from, entry.name));
  const files = new Map<string, string>();
  const assets: string[] = [];
  const reasons: string[] = [];
  const variables = new Set<string>();
  const dependencies = new Map<string, string>();
  const all = [...listFiles(from, name), ...shared];
  const reached = reachable(from, name, { all, map });
  for (const path of all) {
    if (!CODE.test(path)) assets.push(path);
    // Only those shared files count that this function loads.
    else if (reached.has(path)) {
      const text = readFileSync(join(from, path), 'utf8');
      reasons.push(...findFaults(path, text, map));
      for (const one of findVariables(text)) variables.add(one);
      files.set(path, convertText(path, text, map, dependencies));
    }
  }
  if (variables.has('SUPABASE_DB_URL'))
    reasons.push('it asks for SUPABASE_DB_URL, which no function has here: use ctx.serviceClient or an rpc');
  return { files, others: assets, reasons, variables: [...variables], dependencies };
}

/** Code that the function loads from its own files, tests left out. */
function reachable(
  from: string,
  name: string,
  { all, map }: { readonly all: readonly string[]; readonly map: ImportMap },
): ReadonlySet<string> {
  const known = new Set(all);
  const found = new Set<string>();
  const waiting = ENTRIES.map((entry) => `${name}/${entry}`).filter((path) => known.has(path));
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (found.has(path)) continue;
    found.add(path);
    if (!CODE.test(path)) continue;
    for (const { text } of findSpecifiers(readFileSync(join(from, path), 'utf8'))) {
      const found = resolveSpecifier(text, map);
      const target = found.kind === 'file' ? found.path : posix.join(posix.dirname(path), text);
      if (known.has(target)) waiting.push(target);
    }
  }
  return found;
}

function findFaults(path: string, text: string, map: ImportMap): string[] {
  const faults: string[] = [];
  for (const { text: specifier, start, isType } of findSpecifiers(text)) {
    if (isType) continue;
    const found = resolveSpecifier(specifier, map);
    if (found.kind === 'by hand') faults.push(`${path}:${lineNumber(text, start)}: ${found.why}`);
  }
  for (const { member, line } of denoUses(text))
    if (!HAS.has(member)) faults.push(`${path}:${line}: there is no Deno.${member} here`);
  return faults;
}

function convertText(path: string, text: string, map: ImportMap, dependencies: Map<string, string>): string {
  const shim = `${'../'.repeat(path.split('/').length)}deno.js`;
  let out = '';
  let at = 0;
  for (const { text: specifier, start, end, bare, isType } of findSpecifiers(text)) {
    if (isType) continue;
    const found = resolveSpecifier(specifier, map);
    if (found.kind === 'drop' && bare !== undefined) {
      out += text.slice(at, bare.from);
      at = bare.to;
    } else if (found.kind === 'shim' || found.kind === 'package') {
      if (found.kind === 'package') dependencies.set(found.name, found.version);
      out += text.slice(at, start) + (found.kind === 'shim' ? shim : `${found.name}${found.path}`);
      at = end;
    } else if (found.kind === 'file') {
      const there = posix.relative(posix.dirname(path), found.path);
      out += text.slice(at, start) + (there.startsWith('.') ? there : `./${there}`);
      at = end;
    }
  }
  out += text.slice(at);
  const names = ['Deno', 'EdgeRuntime'].filter((global) => new RegExp(`\\b${global}\\b`).test(text));
  // On the first line, so that the others keep their numbers.
  return names.length === 0 ? out : `import { ${names.join(', ')} } from '${shim}'; ${out}`;
}

const renderWrapper = (name: string, entry: string): string => `// Written by svc import supabase functions.
import { answer } from "./_edge/${name}/deno.js";

export default async (req, ctx) => await answer(() => import("./_edge/${name}/source/${entry}"), req, ctx);
`;

function listFiles(from: string, folder: string): string[] {
  return readdirSync(join(from, folder), { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && !entry.parentPath.split(sep).includes('node_modules'))
    .map((entry) => relative(from, join(entry.parentPath, entry.name)).split(sep).join('/'))
    .filter((path) => !/\.env(\.|$)|\.test\.|_test\./.test(path))
    .sort();
}

function readMap(from: string, folder: string): ImportMap {
  const map: Record<string, string> = {};
  for (const name of ['import_map.json', 'deno.json', 'deno.jsonc']) {
    const path = join(from, folder, name);
    if (!existsSync(path)) continue;
    const text = readFileSync(path, 'utf8').replace(/^\s*\/\/.*$/gm, '');
    try {
      const { imports } = JSON.parse(text) as { imports?: Record<string, string> };
      for (const [specifier, target] of Object.entries(imports ?? {}))
        map[specifier] = /^\.\.?\//.test(target) ? `file:${posix.join(folder, target)}` : target;
    } catch {
      throw new Problem('IMP-408', 500, `${path} is not valid JSON`, { hint: 'Mend it, then try again.' });
    }
  }
  return map;
}

/** Reads `verify_jwt` of each function from config.toml. */
function readSettings(path: string): ReadonlyMap<string, boolean> {
  const settings = new Map<string, boolean>();
  if (!existsSync(path)) return settings;
  let section = '';
  for (const line of readFileSync(path, 'utf8').split('\n')) {
    section = /^\s*\[([^\]]+)\]/.exec(line)?.[1]?.trim() ?? section;
    const name = /^functions\.(?:"([^"]+)"|([\w-]+))$/.exec(section);
    const value = /^\s*verify_jwt\s*=\s*(true|false)/.exec(line)?.[1];
    if (name !== null && value !== undefined) settings.set(name[1] ?? name[2] ?? '', value === 'true');
  }
  return settings;
}

const NEW_MANIFEST: object = { name: 'functions', private: true, type: 'module' };

function writeManifest(root: string, dependencies: Readonly<Record<string, string>>): void {
  const path = join(root, 'package.json');
  const before: { dependencies?: Record<string, string> } = existsSync(path)
    ? (JSON.parse(readFileSync(path, 'utf8')) as object)
    : NEW_MANIFEST;
  const manifest = { ...before, dependencies: { ...dependencies, ...before.dependencies } };
  writeFileSync(path, `${JSON.stringify(manifest, undefined, 2)}\n`);
  if (!Object.keys(dependencies).some((name) => name.startsWith('@jsr/'))) return;
  const registry = '@jsr:registry=https://npm.jsr.io\n';
  const npmrc = join(root, '.npmrc');
  const said = existsSync(npmrc) ? readFileSync(npmrc, 'utf8') : '';
  if (!said.includes(registry.trim())) writeFileSync(npmrc, `${said}${registry}`);
}

function write(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}
