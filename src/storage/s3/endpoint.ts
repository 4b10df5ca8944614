// The S3 protocol at /storage/v1/s3, path-style: from a request to the operation it asks for. A parameter that is not
// known to an operation is refused: `PUT key?acl` must never be taken for an upload of the key.
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import { answerRefusal } from '../http/answer.ts';
import { decodeAddress } from '../objects/object-path.ts';
import { featureNotEnabled, invalidRequest, toStorageProblem, type StorageProblem } from '../problem.ts';
import { rawRest, type StorageContext } from '../storage-context.ts';
import type { Call } from './call.ts';
import {
  copyObject,
  deleteObject,
  deleteObjects,
  describeBucket,
  getObject,
  headBucket,
  listBuckets,
  listObjects,
  OVERRIDE_PARAMETERS,
  putObject,
  refuseBucketChange,
  toName,
} from './operations.ts';
import { notImplemented } from './problem.ts';
import { parseQuery } from './signature.ts';
import { readSigner } from './signer.ts';
import { element, renderXml } from './xml.ts';

export function s3Endpoint(context: StorageContext, publishableKey: string): FastifyPluginAsync {
  return async (app) => {
    app.setErrorHandler((error, request, reply) => {
      const problem = toStorageProblem(error);
      if (problem.status >= 500 && problem.cause !== undefined) {
        context.log.error({ err: problem.cause, requestId: request.id }, 'storage fault');
      }
      if (problem.code === 'ServiceUnavailable')
        context.log.error({ requestId: request.id }, problem.message);
      request.scope.errorCode = problem.code;
      const path = request.url.split('?')[0] ?? '';
      const body = request.method === 'HEAD' ? '' : problemXml(problem, path, request.id);
      const headers = {
        ...problem.headers,
        'content-type': 'application/xml',
        'x-amz-request-id': request.id,
      };
      return answerRefusal(request, reply, problem.status, headers, body);
    });
    const handler = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
      if (!context.snapshot().config.server.s3Endpoint) throw featureNotEnabled('s3');
      const call = await open(context, publishableKey, app.prefix, request, reply);
      reply.header('x-amz-request-id', request.id);
      return await operationOf(call)(call);
    };
    for (const url of ['/', '/*']) {
      app.route({ method: ['GET', 'HEAD'], url, config: { deadline: 'none' }, handler });
      app.route({ method: ['PUT', 'POST'], url, config: { deadline: 'upload' }, handler });
      app.route({ method: 'DELETE', url, handler });
    }
    await Promise.resolve();
  };
}

async function open(
  context: StorageContext,
  publishableKey: string,
  prefix: string,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Call> {
  const at = request.url.indexOf('?');
  const rawPath = at < 0 ? request.url : request.url.slice(0, at);
  const parameters = at < 0 ? [] : parseQuery(request.url.slice(at + 1));
  const { method, headers } = request;
  const signer = await readSigner(context, publishableKey, { method, rawPath, query: parameters, headers });
  const query = new Map(parameters);
  if (query.size !== parameters.length) throw invalidRequest('A parameter is there twice');
  const { bucket, name } = decodeAddress(rawRest(request, prefix, 0));
  return { context, request, reply, signer, caller: signer.caller, bucket, name: toName(name), query };
}

type Operation = (call: Call) => Promise<FastifyReply>;

type Route = {
  readonly method: string;
  readonly on: 'service' | 'bucket' | 'object';
  /** The parameter that tells this operation from others on the same address. */
  readonly sub?: string | undefined;
  readonly also?: readonly string[] | undefined;
  readonly run: Operation;
};

const LIST = ['prefix', 'delimiter', 'max-keys', 'encoding-type', 'marker'];
const LIST_2 = ['prefix', 'delimiter', 'max-keys', 'encoding-type', 'continuation-token', 'start-after'];

const ROUTES: readonly Route[] = [
  { method: 'GET', on: 'service', run: listBuckets },
  { method: 'HEAD', on: 'bucket', run: headBucket },
  { method: 'GET', on: 'bucket', sub: 'location', run: (call) => describeBucket(call, 'LocationConstraint') },
  {
    method: 'GET',
    on: 'bucket',
    sub: 'versioning',
    run: (call) => describeBucket(call, 'VersioningConfiguration'),
  },
  { method: 'GET', on: 'bucket', sub: 'list-type', also: [...LIST_2, 'fetch-owner'], run: listObjects },
  { method: 'POST', on: 'bucket', sub: 'delete', run: deleteObjects },
  { method: 'GET', on: 'bucket', also: LIST, run: listObjects },
  { method: 'PUT', on: 'bucket', run: refuseBucketChange },
  { method: 'DELETE', on: 'bucket', run: refuseBucketChange },
  { method: 'GET', on: 'object', also: OVERRIDE_PARAMETERS, run: getObject },
  { method: 'HEAD', on: 'object', also: OVERRIDE_PARAMETERS, run: getObject },
  {
    method: 'PUT',
    on: 'object',
    run: (call) =>
      call.request.headers['x-amz-copy-source'] === undefined ? putObject(call) : copyObject(call),
  },
  { method: 'DELETE', on: 'object', run: deleteObject },
];

function operationOf({ request, bucket, name, query }: Call): Operation {
  const on = bucket === '' ? 'service' : name === '' ? 'bucket' : 'object';
  const asked = [...query.keys()].filter((key) => key !== 'x-id' && !/^X-Amz-/i.test(key));
  const route = ROUTES.find(
    ({ method, on: place, sub, also = [] }) =>
      method === request.method &&
      place === on &&
      (sub === undefined || query.has(sub)) &&
      asked.every((key) => key === sub || also.includes(key)),
  );
  if (!route) throw notImplemented();
  return route.run;
}

function problemXml(problem: StorageProblem, resource: string, requestId: string): string {
  return renderXml(
    element('Error', [
      element('Code', problem.code),
      element('Message', problem.message),
      element('Resource', resource),
      element('RequestId', requestId),
    ]),
  );
}
