import { List, Text } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Confirm } from '../../parts/confirm.tsx';
import { formatBytes, formatCount } from '../../parts/format.tsx';
import { notifyDone } from '../../parts/notify.ts';
import { Loaded } from '../../parts/states.tsx';
import { listBelow, removeObjects, type Place } from './objects.ts';
import { refreshEntries } from './refresh-entries.ts';

const MAX_LISTED = 10;

/**
 * Confirms a deletion. Names that end in a slash are folders: all objects below them are listed first, then deleted.
 */
export function DeleteObjects({
  place,
  names,
  onClose,
  onDone,
}: {
  place: Place;
  names: readonly string[] | undefined;
  onClose: () => void;
  onDone: () => void;
}) {
  const queries = useQueryClient();
  const objects = useQuery({
    queryKey: ['storage', 'deletion', place, names],
    queryFn: async () => {
      const found = await Promise.all(
        (names ?? []).map(async (name) =>
          name.endsWith('/')
            ? (await listBelow(place, name)).map((entry) => ({
                name: entry.name,
                size: entry.metadata?.size ?? 0,
              }))
            : [{ name, size: 0 }],
        ),
      );
      return found.flat();
    },
    enabled: names !== undefined,
    gcTime: 0,
    staleTime: 0,
  });
  const count = objects.data?.length ?? 0;
  return (
    <Confirm
      opened={names !== undefined}
      onClose={onClose}
      title={`Delete from ${place.bucket}`}
      act={count === 1 ? 'Delete file' : `Delete ${formatCount(count)} files`}
      {...(count > 1 ? { typed: place.bucket } : {})}
      onConfirm={async () => {
        const wanted = objects.data?.map(({ name }) => name) ?? [];
        const removed = await removeObjects(place, wanted);
        await refreshEntries(queries);
        if (removed < wanted.length) {
          throw new Error(
            `${removed} of ${wanted.length} were deleted: ` +
              'the others no longer exist, or this caller may not delete them',
          );
        }
        notifyDone(removed === 1 ? 'The file was deleted' : `${formatCount(removed)} files were deleted`);
        onDone();
      }}
    >
      <Loaded query={objects} rows={2}>
        {(files) => (
          <>
            <Text size="sm">
              {files.length === 1
                ? 'This file will be deleted permanently:'
                : `These ${formatCount(files.length)} files will be deleted permanently${formatTotalSize(files)}:`}
            </Text>
            <List size="sm" mt="xs">
              {files.slice(0, MAX_LISTED).map(({ name }) => (
                <List.Item key={name} className="mono" style={{ overflowWrap: 'anywhere' }}>
                  {name}
                </List.Item>
              ))}
            </List>
            {files.length > MAX_LISTED && (
              <Text size="sm">and {formatCount(files.length - MAX_LISTED)} more</Text>
            )}
          </>
        )}
      </Loaded>
    </Confirm>
  );
}

function formatTotalSize(files: ReadonlyArray<{ size: number }>): string {
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  return bytes === 0 ? '' : ` (${formatBytes(bytes)})`;
}
