// Parts of the storage API that an upload uses.
import type { FeatureContext } from '../../http/feature.ts';
import type { Backend } from '../backend/backend.ts';
import type { Cleanup } from '../cleanup/cleanup.ts';
import type { UploadSlots } from './upload-slots.ts';

export type UploadContext = Pick<FeatureContext, 'callers' | 'owner' | 'log' | 'now' | 'snapshot'> & {
  readonly backend: Backend;
  readonly cleanup: Cleanup;
  readonly slots: UploadSlots;
};
