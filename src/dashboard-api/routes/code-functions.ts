// Lists, creates and edits code functions. Only sources that the file declares can be read or changed.
import { createHash, randomUUID } from 'node:crypto';
import { lstatSync, readFileSync, realpathSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve, sep } from 'node:path';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { CodeFunction } from '../../config/config.ts';
import { checkSource, checkSyntax } from '../../functions/sources/check.ts';
import { createFunction } from '../../functions/sources/starter.ts';
import { Problem } from '../../problem/problem.ts';
import type { CodeFunctionList, FunctionSaved, FunctionSource, CreatedFunction } from '../contract.ts';
import type { DashboardContext } from '../dashboard-context.ts';
import { assertSingleInstance, countInstances, loadWrittenFile } from '../local-files.ts';
import { fileChanged, notFound } from '../problem.ts';
import { baseUrlFor, pathParameter, readJson } from '../request.ts';
import type { DashboardRoutes } from './route.ts';

const MAX_SOURCE_BYTES = 1024 * 1024;

const NewFunctionBody = z.strictObject({
  name: z.string(),
  language: z.enum(['js', 'ts']),
  authRequired: z.boolean(),
});
const SourceBody = z.strictObject({ text: z.string(), version: z.string() });

export const codeFunctionRoutes: DashboardRoutes = (context) => [
  ['GET', '/functions', 'read', (request) => listFunctions(context, request)],
  ['POST', '/functions', 'write', (request, reply) => makeFunction(context, request, reply)],
  ['GET', '/functions/:name/source', 'read', (request) => showSource(context, request)],
  ['PUT', '/functions/:name/source', 'write', (request) => saveSource(context, request)],
];

async function listFunctions(context: DashboardContext, request: FastifyRequest): Promise<CodeFunctionList> {
  const { config } = context.snapshot();
  const { workers, failures } = context.functions.status();
  const base = baseUrlFor(request, context);
  const instances = await countInstances(context);
  const readable = projectDirectory(context) !== undefined;
  return {
    functions: config.functions.map((fn) => ({
      name: fn.name,
      file: fn.file,
      authRequired: fn.authRequired,
      timeoutMs: fn.timeoutMs,
      url: `${base}/functions/v1/${fn.name}`,
      env: Object.keys(fn.env),
      error: failures.get(fn.name) ?? null,
    })),
    workers: workers.map(({ pid, state, inFlight, readyMs }) => {
      return { pid: pid ?? null, state, inFlight, readyMs: readyMs ?? null };
    }),
    readable,
    editable: readable && instances === 1,
    instances,
  };
}

async function makeFunction(
  context: DashboardContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<CreatedFunction> {
  const { name, language, authRequired } = await readJson(request, NewFunctionBody);
  requireDirectory(context);
  await assertSingleInstance(context);
  const file = resolve(context.snapshot().config.source.name);
  const files = createFunction({ file, name, language, authRequired });
  context.log.info({ function: name, files }, 'the dashboard created a function');
  const { reload } = context.following ?? {};
  if (reload) await loadWrittenFile(context, reload);
  void reply.code(201);
  return { files, error: loadFailure(context, name), loaded: reload !== undefined };
}

function showSource(context: DashboardContext, request: FastifyRequest): FunctionSource {
  const { file } = declaredFunction(context, request);
  return readSource(file, locate(requireDirectory(context), file));
}

async function saveSource(context: DashboardContext, request: FastifyRequest): Promise<FunctionSaved> {
  const fn = declaredFunction(context, request);
  const { name, file } = fn;
  const { text, version } = await readJson(request, SourceBody);
  const directory = requireDirectory(context);
  if (Buffer.byteLength(text) > MAX_SOURCE_BYTES) throw tooLarge(file);
  checkUnsaved(fn, text);
  await checkSyntax(fn, text);
  await assertSingleInstance(context);
  // There is no await from here on, so no other save of this process can run in between.
  const path = locate(directory, file);
  const former = readSource(file, path);
  if (former.version !== version) throw fileChanged(file);
  replaceFile(path, text);
  const saved = readSource(file, path);
  context.log.info({ function: name, file }, 'the dashboard changed the source of a function');
  // Under `svc dev` the file watcher loads the source.
  const loaded = !context.dev;
  if (loaded) {
    await loadSaved(context, name, () => {
      // Restore the served version, because workers that start later load the file.
      if (readSource(file, path).version === saved.version) replaceFile(path, former.text);
    });
  }
  return { ...saved, error: loadFailure(context, name), loaded };
}

/** Serves the saved source. If it does not load, calls `restore`, and the previous version stays in service. */
async function loadSaved(context: DashboardContext, name: string, restore: () => void): Promise<void> {
  await loadWrittenFile(context, async () => {
    try {
      await context.functions.refresh(name);
    } catch (error) {
      restore();
      throw error;
    }
    await context.following?.reloadOthers?.();
  });
}

function declaredFunction({ snapshot }: DashboardContext, request: FastifyRequest): CodeFunction {
  const name = pathParameter(request, 'name');
  const found = snapshot().config.functions.find((fn) => fn.name === name);
  if (!found) throw notFound(`svc.yaml declares no function ${JSON.stringify(name)}`);
  return found;
}

/** Returns the error of the last attempt to load the code. */
function loadFailure({ functions }: DashboardContext, name: string): string | null {
  return functions.status().failures.get(name) ?? null;
}

/** Rejects a source that the next start would reject. */
function checkUnsaved(fn: CodeFunction, text: string): void {
  try {
    checkSource(fn, text);
  } catch (cause) {
    if (!(cause instanceof Problem)) throw cause;
    const { details, hint } = cause;
    throw new Problem(cause.code, 422, cause.message, { cause, details, hint });
  }
}

/** Directory of the sources; undefined for a remote file, and if a bundle runs. */
function projectDirectory({ dev, snapshot }: DashboardContext): string | undefined {
  const { source, functionsBundle } = snapshot().config;
  return dev || functionsBundle === undefined ? source.directory : undefined;
}

function requireDirectory(context: DashboardContext): string {
  const directory = projectDirectory(context);
  if (directory !== undefined) return directory;
  throw new Problem('not_editable', 409, 'This server does not have the sources of the service', {
    hint: 'It runs a remote svc.yaml or a bundle. Change the sources in your repository and deploy.',
  });
}

/**
 * Returns the real path of the file. Throws `outside_project` if it is outside the project after all links are
 * resolved.
 */
function locate(directory: string, file: string): string {
  const root = realpathSync(directory);
  let path: string;
  try {
    path = realpathSync(resolve(root, file));
  } catch {
    throw notFound(`There is no file ${file}`);
  }
  if (!path.startsWith(root + sep) || !lstatSync(path).isFile()) {
    throw new Problem('outside_project', 403, `${file} is outside the project's directory`, {
      hint: 'The dashboard shows and changes only files inside it.',
    });
  }
  return path;
}

function readSource(file: string, path: string): FunctionSource {
  if (statSync(path).size > MAX_SOURCE_BYTES) throw tooLarge(file);
  const bytes = readFileSync(path);
  const version = createHash('sha256').update(bytes).digest('hex');
  return { file, text: bytes.toString('utf8'), version };
}

/** Replaces the file atomically: a reader sees either the old or the new content. */
function replaceFile(path: string, text: string): void {
  const draft = join(dirname(path), `.${randomUUID()}.tmp`);
  try {
    writeFileSync(draft, text, { flag: 'wx', mode: statSync(path).mode & 0o777 });
    renameSync(draft, path);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
}

function tooLarge(file: string): Problem {
  return new Problem('source_too_large', 413, `${file} is larger than 1 MB`, {
    hint: 'Edit it in your own editor.',
  });
}
