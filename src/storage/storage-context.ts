// What every action of the storage API works with.
import type { FastifyRequest } from 'fastify';
import type { FeatureContext } from '../http/feature.ts';
import type { Backend } from './backend/backend.ts';
import type { Cleanup } from './cleanup/cleanup.ts';
import type { UploadSlots } from './uploads/upload-slots.ts';
import type { UrlTokens } from './objects/url-token.ts';

export type StorageContext = FeatureContext & {
  readonly backend: Backend;
  readonly tokens: UrlTokens;
  readonly cleanup: Cleanup;
  readonly slots: UploadSlots;
  readonly limits: StorageLimits;
};

export type StorageLimits = {
  /** An upload whose client sends nothing for this long is given up. */
  readonly stallMs: number;
  /** Uploads received at once by this process; more are told to come back. */
  readonly concurrentUploads: number;
  /** Of these, how many one user may have, or one address without a user. */
  readonly uploadsPerCaller: number;
  /** Of these, how many all callers without a user may have together. */
  readonly anonymousUploads: number;
  readonly images: ImageLimits;
};

export type ImageLimits = {
  readonly maxInputPixels: number;
  readonly maxInputBytes: number;
  readonly timeoutSeconds: number;
  /** Images rendered at once by this process. */
  readonly concurrent: number;
  /** Rendering requests that may wait for their turn; more are told to come back. */
  readonly waiting: number;
};

export const DEFAULT_LIMITS: StorageLimits = {
  stallMs: 30_000,
  concurrentUploads: 200,
  uploadsPerCaller: 50,
  anonymousUploads: 100,
  images: {
    maxInputPixels: 50_000_000,
    maxInputBytes: 25 * 1024 * 1024,
    timeoutSeconds: 10,
    concurrent: 2,
    waiting: 50,
  },
};

/** The rest of the request's path after the plugin's prefix and `skip` segments, undecoded. */
export function rawRest(request: FastifyRequest, prefix: string, skip: number): string {
  const path = request.url.split('?')[0] ?? '';
  const rest = path.slice(prefix.length + 1);
  let at = 0;
  for (let count = 0; count < skip; count++) at = rest.indexOf('/', at) + 1;
  return rest.slice(at);
}
