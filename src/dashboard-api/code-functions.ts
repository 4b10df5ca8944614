// The code functions of the file: how they are, a new one, and their sources. A source is only ever one that the
// file declares, at the place where the file says it is.
import { createHash, randomUUID } from 'node:crypto';
import { lstatSync, readFileSync, realpathSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve, sep } from 'node:path';
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { localBaseUrl } from '../auth/request.ts';
import type { CodeFunction, Config } from '../config/config.ts';
import { createFunction } from '../functions/starter.ts';
import { Problem } from '../problem/problem.ts';
import type { CodeFunctionList, FunctionSource, NewFunctionMade } from './contract.ts';
import type { DashboardContext, DashboardRoutes } from './dashboard-context.ts';
import { readJson } from './json-body.ts';
import { fileChanged, notFound } from './problem.ts';

const MAX_SOURCE_BYTES = 1024 * 1024;

const NewFunctionBody = z.strictObject({
  name: z.string(),
  language: z.enum(['js', 'ts']),
  authRequired: z.boolean(),
});
const SourceBody = z.strictObject({ text: z.string(), version: z.string() });

export const codeFunctionRoutes: DashboardRoutes = (app, context) => {
  const declared = (request: FastifyRequest): CodeFunction => {
    const { name } = z.object({ name: z.string() }).parse(request.params);
    const found = context.snapshot().config.functions.find((one) => one.name === name);
    if (!found) throw notFound(`svc.yaml declares no function ${JSON.stringify(name)}`);
    return found;
  };

  app.get('/functions', async (request, reply) => {
    const { config } = context.snapshot();
    const { workers, failures } = context.functions.status();
    const base = context.baseUrl() ?? localBaseUrl(request);
    const list: CodeFunctionList = {
      functions: config.functions.map((fn) => ({
        name: fn.name,
        file: fn.file,
        authRequired: fn.authRequired,
        timeoutMs: fn.timeoutMs,
        url: `${base}/functions/v1/${fn.name}`,
        env: Object.keys(fn.env),
        error: failures.get(fn.name) ?? null,
      })),
      workers: workers.map(({ pid, state, inFlight, readyMs }) => ({
        pid: pid ?? null,
        state,
        inFlight,
        readyMs: readyMs ?? null,
      })),
      editable: projectDirectory(context, config) !== undefined,
    };
    return await reply.send(list);
  });

  app.post('/functions', { config: { dashboard: 'write' } }, async (request, reply) => {
    const { name, language, authRequired } = await readJson(request, NewFunctionBody);
    const { config } = context.snapshot();
    requireDirectory(context, config);
    const files = createFunction({ file: resolve(config.source.name), name, language, authRequired });
    return await reply.code(201).send({ files } satisfies NewFunctionMade);
  });

  app.get('/functions/:name/source', async (request, reply) => {
    const { file } = declared(request);
    const directory = requireDirectory(context, context.snapshot().config);
    return await reply.send(readSource(file, locate(directory, file)));
  });

  app.put('/functions/:name/source', { config: { dashboard: 'write' } }, async (request, reply) => {
    const { file } = declared(request);
    const { text, version } = await readJson(request, SourceBody);
    const directory = requireDirectory(context, context.snapshot().config);
    if (Buffer.byteLength(text) > MAX_SOURCE_BYTES) throw tooLarge(file);
    // From here to the end nothing is awaited: no other save of this process falls in between.
    const path = locate(directory, file);
    if (readSource(file, path).version !== version) throw fileChanged(file);
    replaceFile(path, text);
    return await reply.send(readSource(file, path));
  });
};

/** Where sources can be read and changed; undefined for a remote file, and where a bundle is what runs. */
function projectDirectory(
  { dev }: DashboardContext,
  { source, functionsBundle }: Config,
): string | undefined {
  return dev || functionsBundle === undefined ? source.directory : undefined;
}

function requireDirectory(context: DashboardContext, config: Config): string {
  const directory = projectDirectory(context, config);
  if (directory !== undefined) return directory;
  throw new Problem('not_editable', 409, 'The sources of this service are not here', {
    hint: 'It runs a remote svc.yaml or a bundle. Change the sources where they are, and deploy.',
  });
}

/** The file behind every link on the way to it: inside the project, or not at all. */
function locate(directory: string, file: string): string {
  const root = realpathSync(directory);
  let path: string;
  try {
    path = realpathSync(resolve(root, file));
  } catch {
    // Whatever the reason: there is nothing to show.
    throw notFound(`There is no file ${file}`);
  }
  if (!path.startsWith(root + sep) || !lstatSync(path).isFile()) {
    throw new Problem('outside_project', 403, `${file} leads out of the project's directory`, {
      hint: 'The dashboard shows and changes only what is in it.',
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

/** A reader sees the old file or the new one, never half of it. */
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
    hint: 'Edit it in an editor of your own.',
  });
}
