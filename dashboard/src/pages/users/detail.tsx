// Shows one user: profile, sessions, factors, identities and actions.
import { Button, Group, SimpleGrid, Stack, Text } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import type { UserDetail } from '../../../../src/dashboard-api/contract.ts';
import { as, get, send } from '../../api.ts';
import { Confirm } from '../../parts/confirm.tsx';
import { Copy } from '../../parts/copy.tsx';
import { Ago } from '../../parts/format.tsx';
import { notifyDone } from '../../parts/notify.ts';
import { PageLink } from '../../parts/page-link.tsx';
import { Page as Frame } from '../../parts/page.tsx';
import { Loaded } from '../../parts/states.tsx';
import { useCanWrite } from '../../session.ts';
import { Ban } from './ban.tsx';
import { isBanned, displayName, UserState } from './name.tsx';
import { Profile } from './profile.tsx';
import { Factors, Identities, Sessions } from './access.tsx';

export function userQueryKey(id: string): readonly string[] {
  return ['users', 'one', id];
}

export function UserDetailPage({ id }: { id: string }) {
  const user = useQuery({
    queryKey: userQueryKey(id),
    queryFn: ({ signal }) => get<UserDetail>(`/users/${encodeURIComponent(id)}`, signal),
  });
  return (
    <Frame
      title={
        <Group gap="xs" component="span">
          <PageLink search={{}}>Users</PageLink>
          <Text span inherit c="dimmed">
            /
          </Text>
          <Text span inherit style={{ overflowWrap: 'anywhere' }}>
            {user.data ? displayName(user.data) : id}
          </Text>
          {user.data && <UserState user={user.data} />}
        </Group>
      }
      actions={user.data && <Actions user={user.data} />}
    >
      <Loaded query={user}>
        {(found) => (
          <Stack gap="xl">
            <Facts user={found} />
            <Profile key={found.id} user={found} />
            <Sessions user={found} />
            <Factors user={found} />
            <Identities user={found} />
          </Stack>
        )}
      </Loaded>
    </Frame>
  );
}

function Facts({ user }: { user: UserDetail }) {
  return (
    <SimpleGrid cols={{ base: 2, md: 4 }} spacing="md">
      <Fact name="Id">
        <Group gap={2} wrap="nowrap">
          <Text size="sm" className="mono truncate" title={user.id}>
            {user.id}
          </Text>
          <Copy value={user.id} label="id" />
        </Group>
      </Fact>
      <Fact name="Created">
        <Ago time={user.createdAt} />
      </Fact>
      <Fact name="Confirmed">
        <Ago time={user.confirmedAt} />
      </Fact>
      <Fact name={isBanned(user) ? 'Banned until' : 'Last sign-in'}>
        <Ago time={isBanned(user) ? user.bannedUntil : user.lastSignInAt} />
      </Fact>
    </SimpleGrid>
  );
}

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div>
      <Text size="xs" c="dimmed">
        {name}
      </Text>
      <Text size="sm" component="div">
        {children}
      </Text>
    </div>
  );
}

function Actions({ user }: { user: UserDetail }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [isDeleting, setDeleting] = useState(false);
  if (!useCanWrite()) return null;
  const name = displayName(user);
  return (
    <>
      <Ban user={user} />
      <Button size="xs" color="red" variant="light" onClick={() => setDeleting(true)}>
        Delete
      </Button>
      <Confirm
        opened={isDeleting}
        onClose={() => setDeleting(false)}
        title={`Delete ${name}`}
        act="Delete user"
        typed={name}
        onConfirm={async () => {
          await send('DELETE', as('service', 'auth', `admin/users/${user.id}`));
          notifyDone(`${name} was deleted`);
          await navigate({ to: '/users', search: {} });
          await queries.invalidateQueries({ queryKey: ['users', 'list'] });
        }}
      >
        <Text size="sm">
          The account, its {user.sessions.length === 1 ? 'session' : `${user.sessions.length} sessions`},
          identities and factors are deleted permanently, and so are rows with a foreign key to auth.users
          that has <code>on delete cascade</code>. If another foreign key has such rows, nothing is deleted.
        </Text>
      </Confirm>
    </>
  );
}
