import type { FeatureContext } from '../../http/feature.ts';
import type { Caller } from '../../identity/caller.ts';
export type ChannelRights = {
  mayRead(
    topic: string,
    caller: Caller,
    headers: Readonly<Record<string, string>>,
  ): Promise<{ readonly broadcast: boolean; readonly presence: boolean }>;
  mayWrite(
    topic: string,
    extension: 'broadcast' | 'presence',
    caller: Caller,
    headers: Readonly<Record<string, string>>,
  ): Promise<boolean>;
};
export function createChannelRights(_context: FeatureContext): ChannelRights {
  return {
    mayRead: async (_t, c) => ({ broadcast: c.role === 'service_role', presence: c.role === 'service_role' }),
    mayWrite: async (_t, _e, c) => c.role === 'service_role',
  };
}
