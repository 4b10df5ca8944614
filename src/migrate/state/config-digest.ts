// The digest of what a configuration declares. Whoever has it need not make the model to find that nothing has changed.
import { type SchemaConfig, toModel } from '../schema/declared.ts';
import { digestModel, type ModelDigest } from './applied-state.ts';

type Declared = Omit<SchemaConfig, 'source'>;

const DIGESTS = new WeakMap<Declared, ModelDigest>();

export function digestConfig(config: Declared): ModelDigest {
  const found = DIGESTS.get(config) ?? digestModel(toModel(config));
  DIGESTS.set(config, found);
  return found;
}

/** Undefined: it takes the model to say. */
export function knownDigest(config: Declared): ModelDigest | undefined {
  return DIGESTS.get(config);
}

/** `digest`: of this very configuration, from another process. */
export function rememberDigest(config: Declared, digest: ModelDigest): void {
  DIGESTS.set(config, digest);
}
