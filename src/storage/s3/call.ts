// One call of the S3 protocol after its signature was checked: who makes it, on what, and with which parameters.
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../../identity/caller.ts';
import type { StorageContext } from '../storage-context.ts';
import { renderXml, type XmlElement } from './xml.ts';
import type { Signer } from './signer.ts';

export type Call = {
  readonly context: StorageContext;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly signer: Signer;
  readonly caller: Caller;
  readonly bucket: string;
  /** Empty for calls on the bucket. */
  readonly name: string;
  readonly query: ReadonlyMap<string, string>;
};

export function sendXml({ reply }: Pick<Call, 'reply'>, root: XmlElement): FastifyReply {
  return reply.code(200).type('application/xml').send(renderXml(root));
}

export function headerOf({ request }: Pick<Call, 'request'>, name: string): string | undefined {
  const value = request.headers[name];
  return Array.isArray(value) ? value[0] : value;
}
