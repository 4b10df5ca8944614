// Context of the actions of the storage API.
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

/** A request with the context of its route. */
export type Call = {
  readonly context: StorageContext;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  /** Address from the path. Both parts are empty for routes without an object. */
  readonly address: Address;
  /** The undecoded end of the path. */
  readonly rest: string;
};

/** A call with accepted credentials. */
export type CallerCall = Call & { readonly caller: Caller };
/** A call of a route that also accepts callers without usable credentials. */
export type OptionalCallerCall = Call & { readonly caller: Caller | undefined };
