// `/openapi.json`: all APIs in one OpenAPI 3.1 document. It describes the data API as this caller may use it.
import type { FastifyInstance } from 'fastify';
import { AUTH_DESCRIPTION } from '../auth/description.ts';
import { describeFunctions } from '../functions/description.ts';
import type { FeatureContext } from '../http/feature.ts';
import { type ApiDescription, type Schema, toPaths } from '../lib/openapi.ts';
import { resolveDataCaller } from '../identity/caller.ts';
import { REALTIME_DESCRIPTION } from '../realtime/http/description.ts';
import { describeData } from '../rest/actions/describe.ts';
import { refused } from '../rest/rest.ts';
import { STORAGE_DESCRIPTION } from '../storage/description.ts';

export function registerDescription(app: FastifyInstance, context: FeatureContext): void {
  app.get('/openapi.json', async (request, reply) => {
    const resolution = resolveDataCaller(await context.credentials.read(request.headers));
    if (!resolution.ok) throw refused(resolution.refusal);
    const data = await describeData(context, resolution.caller);
    const descriptions = [
      ['/auth/v1', AUTH_DESCRIPTION],
      ['/storage/v1', STORAGE_DESCRIPTION],
      ['/functions/v1', describeFunctions(context.snapshot().config)],
      ['/realtime/v1', REALTIME_DESCRIPTION],
    ] as const;
    return await reply
      .header('cache-control', 'no-store')
      .header('vary', 'apikey, authorization')
      .send(merge(data as DataDescription, descriptions, context.baseUrl() ?? ''));
  });
}

type DataDescription = Schema & {
  readonly info: { readonly title: string };
  readonly paths: Readonly<Record<string, Schema>>;
  readonly components: { readonly schemas: Schema };
};

function merge(
  data: DataDescription,
  descriptions: ReadonlyArray<readonly [prefix: string, ApiDescription]>,
  url: string,
): object {
  const dataPaths = Object.entries(data.paths).map(([path, operations]) => [`/rest/v1${path}`, operations]);
  return {
    ...data,
    servers: [{ url: url === '' ? '/' : url }],
    tags: descriptions.map(([, { tag, about }]) => ({ name: tag, description: about })),
    paths: Object.assign(
      Object.fromEntries(dataPaths),
      ...descriptions.map(([prefix, description]) => toPaths(prefix, description)),
    ) as object,
    components: {
      ...data.components,
      schemas: Object.assign(
        { ...data.components.schemas },
        ...descriptions.map(([, description]) => description.schemas),
      ) as object,
    },
  };
}
