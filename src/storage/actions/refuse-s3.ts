// `/s3`: the endpoint of the S3 protocol, which does not exist here. S3 clients understand only XML.
import type { FastifyReply } from 'fastify';
import type { Call } from '../storage-context.ts';

const BODY = `<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>NotImplemented</Code><Message>This server has no S3 endpoint: use the storage API, or the bucket behind it.</Message></Error>`;

export function refuseS3({ reply }: Call): FastifyReply {
  reply.request.scope.refusal = { code: 'NotImplemented', hint: undefined };
  return reply.code(501).type('application/xml').send(BODY);
}
