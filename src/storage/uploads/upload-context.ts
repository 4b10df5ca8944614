// What receiving an upload needs of the storage API.
import type { FeatureContext } from '../../http/feature.ts';
import type { Backend } from '../backend/backend.ts';
import type { Cleanup } from '../cleanup/cleanup.ts';
import type { UploadSlots } from './upload-slots.ts';

export type UploadContext = Pick<FeatureContext, 'callers' | 'owner' | 'log' | 'now' | 'snapshot'> & {
  readonly backend: Backend;
  readonly cleanup: Cleanup;
  readonly slots: UploadSlots;
};
