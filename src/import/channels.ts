// Converts policies of the source's private channels to `realtime.rls`. Both sides keep them on one table.
import { pulledPolicy } from '../migrate/commands/pull.ts';
import type { LivePolicy } from '../migrate/schema/live/live-schema.ts';

type Node = Record<string, unknown>;

/**
 * Returns the key `realtime`. `left` receives a message for each policy that svc.yaml cannot express. Callers can
 * receive and send, but not change sent messages.
 */
export function realtimeKey(policies: readonly LivePolicy[], left: string[]): Node {
  const rls = policies.flatMap((policy): Node[] => {
    if (policy.command === 'update' || policy.command === 'delete') {
      left.push(`policy ${policy.label}: messages of channels are received and sent, and never changed`);
      return [];
    }
    return pulledPolicy(policy, { grantedToOthers: false }, left).map((said) => ({
      ...said,
      operations: policy.command === 'all' ? ['select', 'insert'] : [policy.command],
    }));
  });
  return rls.length === 0 ? {} : { rls };
}
