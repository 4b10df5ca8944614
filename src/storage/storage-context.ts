// What the actions of the storage API work with.
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { FeatureContext } from '../http/feature.ts';
import type { Caller } from '../identity/caller.ts';
import type { ImageLimits, ImageRenderer } from './objects/image.ts';
import type { Address } from './objects/object-path.ts';
import type { UrlTokens } from './objects/url-token.ts';
import type { UploadLeases } from './uploads/lease.ts';
import type { UploadContext } from './uploads/upload-context.ts';
import type { SlotLimits } from './uploads/upload-slots.ts';

export type StorageLimits = SlotLimits & { readonly images: ImageLimits };

export type StorageContext = FeatureContext &
  UploadContext & {
    readonly tokens: UrlTokens;
    readonly leases: UploadLeases;
    readonly images: ImageRenderer;
  };

/** One request. */
export type Call = {
  readonly context: StorageContext;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  /** From the path; both parts are empty where the route names neither. */
  readonly address: Address;
  /** The undecoded end of the path. */
  readonly rest: string;
};

/** With credentials that were accepted. */
export type CallerCall = Call & { readonly caller: Caller };
/** For routes that also serve callers without usable credentials. */
export type OptionalCallerCall = Call & { readonly caller: Caller | undefined };
