// `/openapi.json`: all APIs in one document of OpenAPI 3.1, the data API as this caller may use it. That half is asked for
// like every request, so the answer is theirs: a key is needed, and the rights are the caller's.
import type { FastifyInstance } from 'fastify';
import { AUTH_DESCRIPTION } from '../auth/description.ts';
import { describeFunctions } from '../functions/description.ts';
import type { FeatureContext } from '../http/feature.ts';
import { type ApiDescription, type Schema, toPaths } from '../lib/openapi.ts';
import { REALTIME_DESCRIPTION } from '../realtime/http/description.ts';
import { STORAGE_DESCRIPTION } from '../storage/description.ts';

export function registerDescription(
  app: FastifyInstance,
  { snapshot, baseUrl }: Pick<FeatureContext, 'snapshot' | 'baseUrl'>,
): void {
  app.get('/openapi.json', async ({ headers }, reply) => {
    const { apikey, authorization } = headers;
    const data = await app.inject({
      url: '/rest/v1/',
      headers: {
        accept: 'application/openapi+json',
        ...(apikey === undefined ? {} : { apikey }),
        ...(authorization === undefined ? {} : { authorization }),
      },
    });
    reply.code(data.statusCode).header('cache-control', 'no-store').header('vary', 'apikey, authorization');
    if (data.statusCode !== 200)
      return await reply.header('content-type', data.headers['content-type']).send(data.rawPayload);
    const others = [
      ['/auth/v1', AUTH_DESCRIPTION],
      ['/storage/v1', STORAGE_DESCRIPTION],
      ['/functions/v1', describeFunctions(snapshot().config)],
      ['/realtime/v1', REALTIME_DESCRIPTION],
    ] as const;
    return await reply.send(merge(data.json(), others, baseUrl() ?? ''));
  });
}

type DataDescription = {
  readonly info: { readonly title: string };
  readonly paths: Readonly<Record<string, Schema>>;
  readonly components: { readonly schemas: Schema };
};

function merge(
  data: DataDescription,
  others: ReadonlyArray<readonly [prefix: string, ApiDescription]>,
  url: string,
): object {
  const ofData = Object.entries(data.paths).map(([path, operations]) => [`/rest/v1${path}`, operations]);
  return {
    ...data,
    servers: [{ url: url === '' ? '/' : url }],
    tags: others.map(([, { tag, about }]) => ({ name: tag, description: about })),
    paths: Object.assign(
      Object.fromEntries(ofData),
      ...others.map(([prefix, description]) => toPaths(prefix, description)),
    ) as object,
    components: {
      ...data.components,
      schemas: Object.assign(
        { ...data.components.schemas },
        ...others.map(([, description]) => description.schemas),
      ) as object,
    },
  };
}
