// Creates a new function: a starter handler, its declaration, and functions/package.json if missing.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Problem } from '../../problem/problem.ts';
import { editText } from '../../config/edit/edit.ts';
import { LOCKFILE } from './install.ts';

export type StarterOptions = {
  /** Path of svc.yaml. */
  readonly file: string;
  readonly name: string;
  readonly language?: 'js' | 'ts' | undefined;
  readonly authRequired?: boolean | undefined;
};

/** Returns the written paths, relative to svc.yaml. Never overwrites a file. */
export function createFunction({ file, name, language = 'js', authRequired }: StarterOptions): string[] {
  if (!/^[A-Za-z0-9][\w-]{0,62}$/.test(name)) {
    throw new Problem('bad_name', 400, `${JSON.stringify(name)} is not a function name`, {
      hint: 'Use letters, digits, - and _: the name is part of the URL.',
    });
  }
  const root = dirname(file);
  const handler = `functions/${name}.${language}`;
  if (existsSync(join(root, handler))) {
    throw new Problem('already_there', 409, `${handler} exists already`);
  }
  const value = { runtime: 'node', file: handler, ...(authRequired ? { auth_required: true } : {}) };
  const declared = editText(readFileSync(file, 'utf8'), [{ kind: 'add', path: ['functions', name], value }]);
  mkdirSync(join(root, 'functions'), { recursive: true });
  const written = [handler];
  writeFileSync(join(root, handler), language === 'ts' ? TYPESCRIPT : JAVASCRIPT, { flag: 'wx' });
  if (!existsSync(join(root, 'functions/package.json'))) {
    const manifest = { name: 'functions', private: true, type: 'module' };
    const lock = {
      name: 'functions',
      lockfileVersion: 3,
      requires: true,
      packages: { '': { name: 'functions' } },
    };
    writeJson(join(root, 'functions/package.json'), manifest);
    written.push('functions/package.json');
    // An empty lockfile, so that `svc bundle` works from the start.
    if (!existsSync(join(root, 'functions', LOCKFILE))) {
      writeJson(join(root, 'functions', LOCKFILE), lock);
      written.push(`functions/${LOCKFILE}`);
    }
  }
  writeFileSync(file, declared);
  return written;
}

function writeJson(path: string, value: unknown): void {
  writeFileSync(path, `${JSON.stringify(value, null, 2)}\n`, { flag: 'wx' });
}

const JAVASCRIPT = `// req: method, path, query, headers, body, rawBody. ctx: client, claims, env, log, signal.
export default async function handler(req, ctx) {
  ctx.log.info('called', { signedIn: ctx.claims !== null });
  return { status: 200, body: { message: 'Hello' } };
}
`;

const TYPESCRIPT = `// req: method, path, query, headers, body, rawBody. ctx: client, claims, env, log, signal.
type Request = { method: string; query: Record<string, string>; headers: Record<string, string>; body: unknown };
type Context = { claims: { sub?: string; role: string } | null; env: Record<string, string> };

export default async function handler(req: Request, ctx: Context) {
  return { status: 200, body: { message: 'Hello', signedIn: ctx.claims !== null } };
}
`;
