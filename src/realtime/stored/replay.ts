import type { FeatureContext } from '../../http/feature.ts';
import type { Caller } from '../../identity/caller.ts';
import type { StoredMessage } from '../changes/changes.ts';
export async function replay(
  _c: FeatureContext,
  _caller: Caller,
  _topic: string,
  _since: Date,
  _limit: number,
): Promise<readonly StoredMessage[]> {
  return [];
}
