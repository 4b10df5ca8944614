// Shows one object: preview, metadata, URLs and actions.
import { Button, Code, Drawer, Group, NativeSelect, Stack, Table, Text, TextInput } from '@mantine/core';
import { IconDownload } from '@tabler/icons-react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState, type FormEvent } from 'react';
import type { Overview } from '../../../../src/dashboard-api/contract.ts';
import { get } from '../../api.ts';
import { Copy } from '../../parts/copy.tsx';
import { formatBytes } from '../../parts/format.tsx';
import { notifyDone } from '../../parts/notify.ts';
import { usePageSearch } from '../../parts/search-params.ts';
import { Failure } from '../../parts/states.tsx';
import { useCanWrite } from '../../session.ts';
import {
  downloadUrl,
  moveObject,
  publicPath,
  signObject,
  type Bucket,
  type Place,
  type StoredEntry,
} from './objects.ts';
import { refreshEntries } from './refresh-entries.ts';
import { Preview } from './preview.tsx';

type ObjectDrawerProps = {
  bucket: Bucket;
  place: Place;
  /** Full name; undefined closes the drawer. */
  name: string | undefined;
  /** Entry of the list; undefined if a link opened the object and the loaded list does not contain it. */
  entry: StoredEntry | undefined;
  onClose: () => void;
  onDelete: (name: string) => void;
};

export function ObjectDrawer({ bucket, place, name, entry, onClose, onDelete }: ObjectDrawerProps) {
  return (
    <Drawer
      opened={name !== undefined}
      onClose={onClose}
      position="right"
      title={
        <Text fw={600} style={{ overflowWrap: 'anywhere' }}>
          {name?.slice(name.lastIndexOf('/') + 1)}
        </Text>
      }
    >
      {name !== undefined && (
        <ObjectView
          key={name}
          bucket={bucket}
          place={place}
          name={name}
          entry={entry}
          onDelete={() => onDelete(name)}
        />
      )}
    </Drawer>
  );
}

function ObjectView({
  bucket,
  place,
  name,
  entry,
  onDelete,
}: Omit<ObjectDrawerProps, 'name' | 'onClose' | 'onDelete'> & { name: string; onDelete: () => void }) {
  const canWrite = useCanWrite();
  const metadata = entry?.metadata;
  const rows = [
    ['Size', metadata?.size === undefined ? undefined : formatBytes(metadata.size)],
    ['Type', metadata?.mimetype],
    ['Cached', metadata?.cacheControl],
    ['ETag', metadata?.eTag],
    ['Created', entry?.created_at ? new Date(entry.created_at).toLocaleString() : undefined],
    ['Changed', entry?.updated_at ? new Date(entry.updated_at).toLocaleString() : undefined],
  ].filter(([, value]) => value !== undefined);
  return (
    <Stack>
      <Preview place={place} name={name} type={metadata?.mimetype} size={metadata?.size} />
      <Group gap="xs">
        <Button
          component="a"
          href={downloadUrl(place, name)}
          download
          size="xs"
          variant="default"
          leftSection={<IconDownload size={16} />}
        >
          Download
        </Button>
        {canWrite && (
          <Button size="xs" color="red" variant="light" onClick={onDelete}>
            Delete
          </Button>
        )}
      </Group>
      <Table verticalSpacing={4}>
        <Table.Tbody>
          {rows.map(([label, value]) => (
            <Table.Tr key={label}>
              <Table.Th fw={500}>{label}</Table.Th>
              <Table.Td style={{ overflowWrap: 'anywhere' }}>{value}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      <Addresses bucket={bucket} place={place} name={name} />
      {canWrite && <Move place={place} name={name} />}
    </Stack>
  );
}

function Addresses({ bucket, place, name }: { bucket: Bucket; place: Place; name: string }) {
  const canWrite = useCanWrite();
  const [seconds, setSeconds] = useState('3600');
  const overview = useQuery({
    queryKey: ['overview'],
    queryFn: ({ signal }) => get<Overview>('/overview', signal),
    staleTime: 60_000,
  });
  const signing = useMutation({ mutationFn: () => signObject(place, name, Number(seconds)) });
  const base = overview.data?.url;
  if (base === undefined) return null;
  return (
    <Stack gap="xs">
      {bucket.public && <Address label="public URL" url={base + publicPath(bucket.id, name)} />}
      {canWrite && (
        <Group gap="xs" align="flex-end">
          <NativeSelect
            label="Signed URL"
            size="xs"
            value={seconds}
            onChange={(event) => {
              setSeconds(event.currentTarget.value);
              signing.reset();
            }}
            data={[
              { value: '3600', label: 'for an hour' },
              { value: '86400', label: 'for a day' },
              { value: '604800', label: 'for a week' },
            ]}
          />
          <Button size="xs" variant="default" loading={signing.isPending} onClick={() => signing.mutate()}>
            Create
          </Button>
        </Group>
      )}
      {signing.data !== undefined && <Address label="signed URL" url={base + signing.data} />}
      {signing.isError && <Failure error={signing.error} />}
    </Stack>
  );
}

function Address({ label, url }: { label: string; url: string }) {
  return (
    <Group gap={2} wrap="nowrap">
      <Code className="truncate" title={url} aria-label={label}>
        {url}
      </Code>
      <Copy value={url} label={label} />
    </Group>
  );
}

function Move({ place, name }: { place: Place; name: string }) {
  const queries = useQueryClient();
  const [, change] = usePageSearch();
  const [to, setTo] = useState(name);
  const moving = useMutation({
    mutationFn: () => moveObject(place, name, to),
    onSuccess: async () => {
      notifyDone(`Moved to ${to}`);
      const folder = to.slice(0, to.lastIndexOf('/') + 1);
      change({ object: to, folder: folder === '' ? undefined : folder });
      await refreshEntries(queries);
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (to !== name && to !== '') moving.mutate();
  };
  return (
    <form onSubmit={submit}>
      <Stack gap="xs">
        <TextInput
          label="Name in the bucket"
          description="A new name moves the file. Slashes create folders."
          size="xs"
          spellCheck={false}
          value={to}
          onChange={(event) => setTo(event.currentTarget.value)}
        />
        {moving.isError && <Failure error={moving.error} />}
        <Group>
          <Button
            type="submit"
            size="xs"
            variant="default"
            loading={moving.isPending}
            disabled={to === name || to === ''}
          >
            Move
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
