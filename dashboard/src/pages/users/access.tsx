// Shows the sessions, second factors and identities of a user.
import { Badge, Button, Group, Stack, Table, Text, Title, VisuallyHidden } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState, type ReactNode } from 'react';
import type { UserDetail } from '../../../../src/dashboard-api/contract.ts';
import { as, send } from '../../api.ts';
import { Confirm } from '../../parts/confirm.tsx';
import { Ago } from '../../parts/format.tsx';
import { notifyDone, notifyFailure } from '../../parts/notify.ts';
import { useCanWrite } from '../../session.ts';

function Section({
  title,
  empty,
  isEmpty,
  action,
  children,
}: {
  title: string;
  empty: string;
  isEmpty: boolean;
  action?: ReactNode;
  children: ReactNode;
}) {
  return (
    <Stack component="section" aria-label={title} gap="xs">
      <Group justify="space-between">
        <Title order={3} size="h5">
          {title}
        </Title>
        {action}
      </Group>
      {isEmpty ? (
        <Text size="sm" c="dimmed">
          {empty}
        </Text>
      ) : (
        children
      )}
    </Stack>
  );
}

export function Sessions({ user }: { user: UserDetail }) {
  const queries = useQueryClient();
  const canWrite = useCanWrite();
  const [isAll, setAll] = useState(false);
  const path = `/users/${user.id}/sessions`;
  const refresh = (): Promise<void> => queries.invalidateQueries({ queryKey: ['users'] });
  const signOut = useMutation({
    mutationFn: (session: string) => send('DELETE', `${path}/${session}`),
    onSuccess: async () => {
      notifyDone('The session was signed out');
      await refresh();
    },
    onError: notifyFailure,
  });
  return (
    <Section
      title="Sessions"
      empty="No active sessions"
      isEmpty={user.sessions.length === 0}
      action={
        canWrite &&
        user.sessions.length > 0 && (
          <Button size="xs" variant="default" onClick={() => setAll(true)}>
            Sign out everywhere
          </Button>
        )
      }
    >
      <Table verticalSpacing="xs">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Where</Table.Th>
            <Table.Th visibleFrom="sm">Signed in</Table.Th>
            <Table.Th visibleFrom="sm">Refreshed</Table.Th>
            {canWrite && (
              <Table.Th>
                <VisuallyHidden>Actions</VisuallyHidden>
              </Table.Th>
            )}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {user.sessions.map((session) => (
            <Table.Tr key={session.id}>
              <Table.Td w="100%" maw={0}>
                <Text size="sm" component="div" className="truncate" title={session.userAgent ?? undefined}>
                  {session.userAgent ?? 'unknown client'}
                </Text>
                <Text size="xs" c="dimmed">
                  {session.ip ?? 'unknown address'} · {session.aal === 'aal2' ? 'two factors' : 'one factor'}
                </Text>
              </Table.Td>
              <Table.Td visibleFrom="sm" className="truncate">
                <Ago time={session.createdAt} />
              </Table.Td>
              <Table.Td visibleFrom="sm" className="truncate">
                <Ago time={session.refreshedAt} />
              </Table.Td>
              {canWrite && (
                <Table.Td>
                  <Button
                    size="compact-xs"
                    variant="light"
                    color="red"
                    loading={signOut.isPending && signOut.variables === session.id}
                    onClick={() => signOut.mutate(session.id)}
                  >
                    Sign out
                  </Button>
                </Table.Td>
              )}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      <Confirm
        opened={isAll}
        onClose={() => setAll(false)}
        title="Sign out everywhere"
        act="Sign out everywhere"
        onConfirm={async () => {
          await send('DELETE', path);
          notifyDone('Every session was signed out');
          await refresh();
        }}
      >
        <Text size="sm">
          {user.sessions.length === 1 ? 'The only session ends' : `All ${user.sessions.length} sessions end`}.
          Refresh tokens stop working. Existing access tokens work until they expire.
        </Text>
      </Confirm>
    </Section>
  );
}

export function Factors({ user }: { user: UserDetail }) {
  const queries = useQueryClient();
  const canWrite = useCanWrite();
  const [factorToDelete, setFactorToDelete] = useState<UserDetail['factors'][number]>();
  return (
    <Section title="Second factors" empty="None enrolled." isEmpty={user.factors.length === 0}>
      <Table verticalSpacing="xs">
        <Table.Tbody>
          {user.factors.map((factor) => (
            <Table.Tr key={factor.id}>
              <Table.Td w="100%">
                {factor.name ?? factor.type}{' '}
                <Badge variant="light" color={factor.status === 'verified' ? 'teal' : 'yellow'}>
                  {factor.status}
                </Badge>
                <Text size="xs" c="dimmed" component="div">
                  {factor.type}, <Ago time={factor.createdAt} />
                </Text>
              </Table.Td>
              {canWrite && (
                <Table.Td>
                  <Button
                    size="compact-xs"
                    variant="light"
                    color="red"
                    onClick={() => setFactorToDelete(factor)}
                  >
                    Delete
                  </Button>
                </Table.Td>
              )}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      <Confirm
        opened={factorToDelete !== undefined}
        onClose={() => setFactorToDelete(undefined)}
        title={`Delete the factor ${factorToDelete?.name ?? factorToDelete?.type ?? ''}`}
        act="Delete factor"
        onConfirm={async () => {
          await send(
            'DELETE',
            as('service', 'auth', `admin/users/${user.id}/factors/${factorToDelete?.id ?? ''}`),
          );
          notifyDone('The factor was deleted');
          await queries.invalidateQueries({ queryKey: ['users'] });
        }}
      >
        <Text size="sm">
          The user can then sign in without it and enrol a new one. Do this for a user who lost the device,
          after you have verified their identity.
        </Text>
      </Confirm>
    </Section>
  );
}

export function Identities({ user }: { user: UserDetail }) {
  return (
    <Section title="Identities" empty="None: an anonymous user." isEmpty={user.identities.length === 0}>
      <Table verticalSpacing="xs">
        <Table.Tbody>
          {user.identities.map((identity) => (
            <Table.Tr key={identity.id}>
              <Table.Td>{identity.provider}</Table.Td>
              <Table.Td w="100%" style={{ overflowWrap: 'anywhere' }}>
                {identity.email}
              </Table.Td>
              <Table.Td visibleFrom="sm" className="truncate">
                <Ago time={identity.createdAt} />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Section>
  );
}
