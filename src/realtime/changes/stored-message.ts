// Stored broadcasts: rows of `realtime.messages` as the source reads them.
import type { StoredMessage } from './changes.ts';
import type { SourceChange } from './source/change-source.ts';

/** Returns undefined for a row that is not a broadcast. */
export function readStoredMessage({ relation, change }: SourceChange): StoredMessage | undefined {
  const value = (name: string): string | undefined => {
    const at = relation.columns.findIndex((column) => column.name === name);
    return change.new?.[at] ?? undefined;
  };
  const [id, topic] = [value('id'), value('topic')];
  if (id === undefined || topic === undefined || value('extension') !== 'broadcast') return undefined;
  const binary = value('binary_payload');
  return {
    id,
    topic,
    event: value('event') ?? '',
    private: value('private') === 't',
    payload: value('payload'),
    binary: binary === undefined ? undefined : Buffer.from(binary.slice('\\x'.length), 'hex'),
  };
}
