// Lists buckets, or the content of one. The query string contains the bucket, the folder and the caller.
import { Badge, Table } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { CallerPicker, isCallerName } from '../parts/caller-picker.tsx';
import { formatBytes } from '../parts/format.tsx';
import { PageLink } from '../parts/page-link.tsx';
import { Page as Frame } from '../parts/page.tsx';
import { usePageSearch } from '../parts/search-params.ts';
import { Empty, Loaded } from '../parts/states.tsx';
import { Browser } from './storage/browser.tsx';
import { Crumbs } from './storage/crumbs.tsx';
import { listBuckets, type Bucket } from './storage/objects.ts';

export function Page() {
  const [search, change] = usePageSearch();
  const caller = isCallerName(search['caller']) ? search['caller'] : 'service';
  const buckets = useQuery({
    queryKey: ['storage', 'buckets'],
    queryFn: ({ signal }) => listBuckets(signal),
  });
  if (search['bucket'] === undefined) {
    return (
      <Frame title="Storage" description="Buckets are declared in svc.yaml; their files are managed here.">
        <Loaded query={buckets}>
          {(found) =>
            found.length === 0 ? (
              <Empty title="No buckets yet">Declare one under “storage” in svc.yaml.</Empty>
            ) : (
              <BucketTable buckets={found} />
            )
          }
        </Loaded>
      </Frame>
    );
  }
  const place = { bucket: search['bucket'], folder: search['folder'] ?? '', caller };
  return (
    <Frame
      title={<Crumbs place={place} callerInAddress={search['caller']} />}
      actions={<CallerPicker value={caller} onChange={(chosen) => change({ caller: chosen })} />}
    >
      <Loaded query={buckets}>
        {(found) => {
          const bucket = found.find(({ id }) => id === place.bucket);
          return bucket ? (
            <Browser key={`${place.bucket}/${place.folder} ${caller}`} bucket={bucket} place={place} />
          ) : (
            <Empty title={`There is no bucket ${place.bucket}`} />
          );
        }}
      </Loaded>
    </Frame>
  );
}

function BucketTable({ buckets }: { buckets: readonly Bucket[] }) {
  return (
    <Table verticalSpacing="xs" highlightOnHover>
      <Table.Thead>
        <Table.Tr>
          <Table.Th>Bucket</Table.Th>
          <Table.Th>Reading</Table.Th>
          <Table.Th visibleFrom="xs">Largest file</Table.Th>
          <Table.Th visibleFrom="sm">Types</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {buckets.map((bucket) => (
          <Table.Tr key={bucket.id}>
            <Table.Td>
              <PageLink search={{ bucket: bucket.id }}>{bucket.id}</PageLink>
            </Table.Td>
            <Table.Td>
              <Badge variant="light" color={bucket.public ? 'yellow' : 'gray'}>
                {bucket.public ? 'public' : 'by policy'}
              </Badge>
            </Table.Td>
            <Table.Td visibleFrom="xs">
              {bucket.file_size_limit === null ? 'no limit' : formatBytes(bucket.file_size_limit)}
            </Table.Td>
            <Table.Td visibleFrom="sm">{bucket.allowed_mime_types?.join(', ') ?? 'any'}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
