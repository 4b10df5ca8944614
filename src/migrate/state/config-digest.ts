// Caches the digest of the declarations of a configuration, so that the check for changes does not need the model.
import { type SchemaConfig, toModel } from '../schema/declared.ts';
import { digestModel, type ModelDigest } from './applied-state.ts';

type Declared = Omit<SchemaConfig, 'source'>;

const DIGESTS = new WeakMap<Declared, ModelDigest>();

export function digestConfig(config: Declared): ModelDigest {
  const found = DIGESTS.get(config) ?? digestModel(toModel(config));
  DIGESTS.set(config, found);
  return found;
}

/** Returns undefined if the digest must be computed from the model. */
export function knownDigest(config: Declared): ModelDigest | undefined {
  return DIGESTS.get(config);
}

/** Stores the digest of a configuration whose model the caller has built. */
export function rememberDigest(config: Declared, digest: ModelDigest): void {
  DIGESTS.set(config, digest);
}
