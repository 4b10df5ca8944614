// Lists a folder of a bucket. Supports previews, uploads by drag and drop, and deletion.
import { Box, Button, Checkbox, FileButton, Group, Table, Text } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { IconFile, IconFolder, IconUpload } from '@tabler/icons-react';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useState, type DragEvent } from 'react';
import { Ago, formatBytes } from '../../parts/format.tsx';
import { PageLink } from '../../parts/page-link.tsx';
import { SearchBox } from '../../parts/search-box.tsx';
import { usePageSearch } from '../../parts/search-params.ts';
import { Empty, Failure, Waiting } from '../../parts/states.tsx';
import { useCanWrite } from '../../session.ts';
import { DeleteObjects } from './delete-objects.tsx';
import { ObjectDrawer } from './object-drawer.tsx';
import { listEntries, PAGE_SIZE, type Bucket, type Place, type StoredEntry } from './objects.ts';
import { UploadList } from './upload-list.tsx';
import { useUploads } from './use-uploads.ts';
import classes from './browser.module.css';

export function Browser({ bucket, place }: { bucket: Bucket; place: Place }) {
  const [address, change] = usePageSearch();
  const [search, setSearch] = useState('');
  const [settled] = useDebouncedValue(search, 200);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [namesToDelete, setNamesToDelete] = useState<readonly string[]>();
  const [isOver, setOver] = useState(false);
  const canWrite = useCanWrite();
  const { uploads, add, replace, cancel, clear } = useUploads(place);
  const pages = useInfiniteQuery({
    queryKey: ['storage', 'entries', place, settled],
    queryFn: ({ pageParam }) => listEntries(place, settled, pageParam),
    initialPageParam: 0,
    getNextPageParam: (last, all) => (last.length < PAGE_SIZE ? undefined : all.length * PAGE_SIZE),
  });
  const entries = pages.data?.pages.flat() ?? [];
  const drop = (event: DragEvent): void => {
    event.preventDefault();
    setOver(false);
    if (canWrite) add([...event.dataTransfer.files]);
  };
  const open = address['object'];
  return (
    <Box
      className={classes['drop']}
      data-over={isOver}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(canWrite);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={drop}
    >
      <Group justify="space-between" mb="sm" gap="xs">
        <SearchBox label="Search names by prefix" value={search} onChange={setSearch} />
        <Group gap="xs">
          {canWrite && chosen.size > 0 && (
            <Button size="xs" color="red" variant="light" onClick={() => setNamesToDelete([...chosen])}>
              Delete {chosen.size}
            </Button>
          )}
          {canWrite && (
            <FileButton onChange={add} multiple inputProps={{ 'aria-label': 'Files to upload' }}>
              {(props) => (
                <Button {...props} size="xs" leftSection={<IconUpload size={16} />}>
                  Upload
                </Button>
              )}
            </FileButton>
          )}
        </Group>
      </Group>
      <UploadList uploads={uploads} onCancel={cancel} onReplace={replace} onClear={clear} />
      {pages.isError ? (
        <Failure error={pages.error} onRetry={() => void pages.refetch()} />
      ) : pages.isPending ? (
        <Waiting />
      ) : entries.length === 0 ? (
        <NothingHere isSearch={settled !== ''} caller={place.caller} canWrite={canWrite} />
      ) : (
        <EntryTable
          entries={entries}
          place={place}
          callerInAddress={address['caller']}
          chosen={canWrite ? chosen : undefined}
          onChoose={setChosen}
        />
      )}
      {pages.hasNextPage && (
        <Button
          mt="sm"
          size="xs"
          variant="default"
          loading={pages.isFetchingNextPage}
          onClick={() => void pages.fetchNextPage()}
        >
          Show more
        </Button>
      )}
      <Text size="xs" c="dimmed" mt="sm">
        {canWrite && 'Files can be dropped here. '}
        {bucket.file_size_limit !== null && `At most ${formatBytes(bucket.file_size_limit)} each. `}
        {bucket.allowed_mime_types !== null && `Only ${bucket.allowed_mime_types.join(', ')}.`}
      </Text>
      <ObjectDrawer
        bucket={bucket}
        place={place}
        name={open}
        entry={entries.find(({ name }) => place.folder + name === open)}
        onClose={() => change({ object: undefined })}
        onDelete={(name) => setNamesToDelete([name])}
      />
      <DeleteObjects
        place={place}
        names={namesToDelete}
        onClose={() => setNamesToDelete(undefined)}
        onDone={() => {
          setChosen(new Set());
          change({ object: undefined });
        }}
      />
    </Box>
  );
}

function NothingHere({
  isSearch,
  caller,
  canWrite,
}: {
  isSearch: boolean;
  caller: string;
  canWrite: boolean;
}) {
  if (isSearch) return <Empty title="No name has this prefix" />;
  return (
    <Empty title={caller === 'service' ? 'Nothing here yet' : 'This caller sees no files'}>
      {caller === 'service'
        ? canWrite && 'Drop files here, or use “Upload”.'
        : 'The bucket’s policies decide. The service sees all files.'}
    </Empty>
  );
}

function EntryTable({
  entries,
  place,
  callerInAddress,
  chosen,
  onChoose,
}: {
  entries: readonly StoredEntry[];
  place: Place;
  callerInAddress: string | undefined;
  /** Undefined disables selection. */
  chosen: ReadonlySet<string> | undefined;
  onChoose: (chosen: ReadonlySet<string>) => void;
}) {
  const entryPath = (entry: StoredEntry): string =>
    place.folder + entry.name + (entry.id === null ? '/' : '');
  const at = { bucket: place.bucket, caller: callerInAddress };
  return (
    <Table verticalSpacing={6} highlightOnHover>
      <Table.Thead>
        <Table.Tr>
          {chosen && (
            <Table.Th w={36}>
              <Checkbox
                size="xs"
                aria-label="Choose all"
                checked={entries.every((entry) => chosen.has(entryPath(entry)))}
                onChange={(event) =>
                  onChoose(new Set(event.currentTarget.checked ? entries.map(entryPath) : []))
                }
              />
            </Table.Th>
          )}
          <Table.Th>Name</Table.Th>
          <Table.Th ta="right">Size</Table.Th>
          <Table.Th visibleFrom="sm">Type</Table.Th>
          <Table.Th visibleFrom="sm">Changed</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {entries.map((entry) => {
          const path = entryPath(entry);
          const isFolder = entry.id === null;
          return (
            <Table.Tr key={path}>
              {chosen && (
                <Table.Td>
                  <Checkbox
                    size="xs"
                    aria-label={`Choose ${entry.name}`}
                    checked={chosen.has(path)}
                    onChange={(event) => {
                      const next = new Set(chosen);
                      if (event.currentTarget.checked) next.add(path);
                      else next.delete(path);
                      onChoose(next);
                    }}
                  />
                </Table.Td>
              )}
              <Table.Td w="100%" maw={0}>
                <Group gap={6} wrap="nowrap">
                  {isFolder ? (
                    <IconFolder size={16} aria-hidden className={classes['icon']} />
                  ) : (
                    <IconFile size={16} aria-hidden className={classes['icon']} />
                  )}
                  <Text size="sm" component="div" className="truncate">
                    <PageLink
                      search={
                        isFolder
                          ? { ...at, folder: path }
                          : { ...at, folder: place.folder || undefined, object: path }
                      }
                    >
                      {entry.name}
                      {isFolder && '/'}
                    </PageLink>
                  </Text>
                </Group>
              </Table.Td>
              <Table.Td ta="right" className="truncate">
                {entry.metadata?.size === undefined ? '' : formatBytes(entry.metadata.size)}
              </Table.Td>
              <Table.Td visibleFrom="sm" className="truncate">
                {entry.metadata?.mimetype}
              </Table.Td>
              <Table.Td visibleFrom="sm" className="truncate">
                {entry.updated_at !== null && <Ago time={entry.updated_at} />}
              </Table.Td>
            </Table.Tr>
          );
        })}
      </Table.Tbody>
    </Table>
  );
}
