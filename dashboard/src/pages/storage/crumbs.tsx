import { Group, Text } from '@mantine/core';
import { Fragment } from 'react';
import { PageLink } from '../../parts/page-link.tsx';
import type { Place } from './objects.ts';

/** Breadcrumbs: Storage / bucket / folder / folder. All except the last are links. */
export function Crumbs({ place, callerInAddress }: { place: Place; callerInAddress: string | undefined }) {
  const { bucket, folder } = place;
  const folders = folder.split('/').filter((part) => part !== '');
  const caller = callerInAddress;
  const crumbs = [
    { name: 'Storage', search: {} },
    { name: bucket, search: { bucket, caller } },
    ...folders.map((name, depth) => ({
      name,
      search: { bucket, caller, folder: `${folders.slice(0, depth + 1).join('/')}/` },
    })),
  ];
  return (
    <Group gap={6} component="span">
      {crumbs.map((crumb, index) => (
        <Fragment
          key={crumbs
            .slice(0, index + 1)
            .map(({ name }) => name)
            .join('/')}
        >
          {index > 0 && (
            <Text span inherit c="dimmed">
              /
            </Text>
          )}
          {index === crumbs.length - 1 ? (
            <Text span inherit style={{ overflowWrap: 'anywhere' }}>
              {crumb.name}
            </Text>
          ) : (
            <PageLink search={crumb.search}>{crumb.name}</PageLink>
          )}
        </Fragment>
      ))}
    </Group>
  );
}
