import { Group, Pagination, Table, Text } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import type { UserList } from '../../../../src/dashboard-api/contract.ts';
import { get } from '../../api.ts';
import { Ago, formatCount } from '../../parts/format.tsx';
import { PageLink } from '../../parts/page-link.tsx';
import { Page as Frame } from '../../parts/page.tsx';
import { SearchBox } from '../../parts/search-box.tsx';
import { usePageSearch } from '../../parts/search-params.ts';
import { Empty, Loaded } from '../../parts/states.tsx';
import { NewUserButton } from './new-user.tsx';
import { displayName, UserState } from './name.tsx';

const PER_PAGE = 50;

export function UserListPage() {
  const [search, change] = usePageSearch();
  const text = search['search'] ?? '';
  const page = Math.max(1, Number(search['page'] ?? 1) || 1);
  const [settled] = useDebouncedValue(text, 200);
  const users = useQuery({
    queryKey: ['users', 'list', settled, page],
    queryFn: ({ signal }) =>
      get<UserList>(`/users?search=${encodeURIComponent(settled)}&page=${page}&per_page=${PER_PAGE}`, signal),
    placeholderData: keepPreviousData,
  });
  return (
    <Frame
      title="Users"
      description="All users, newest first."
      actions={
        <>
          <SearchBox
            label="Search address, phone or id"
            value={text}
            onChange={(value) => change({ search: value === '' ? undefined : value, page: undefined })}
          />
          <NewUserButton />
        </>
      }
    >
      <Loaded query={users}>
        {(list) =>
          list.users.length === 0 ? (
            settled === '' ? (
              <Empty title="No users yet">
                Users appear here after they sign up, or when you create one.
              </Empty>
            ) : (
              <Empty title={`No user matches “${settled}”`} />
            )
          ) : (
            <>
              <UserTable list={list} />
              <Group justify="space-between">
                <Text size="sm" c="dimmed">
                  {list.total === 1 ? '1 user' : `${formatCount(list.total)} users`}
                </Text>
                {list.total > PER_PAGE && (
                  <Pagination
                    size="sm"
                    total={Math.ceil(list.total / PER_PAGE)}
                    value={page}
                    onChange={(wanted) => change({ page: wanted === 1 ? undefined : String(wanted) })}
                    getControlProps={(control) => ({ 'aria-label': `${control} page` })}
                    getItemProps={(item) => ({ 'aria-label': `Page ${item}` })}
                  />
                )}
              </Group>
            </>
          )
        }
      </Loaded>
    </Frame>
  );
}

function UserTable({ list }: { list: UserList }) {
  return (
    <Table verticalSpacing="xs" highlightOnHover>
      <Table.Thead>
        <Table.Tr>
          <Table.Th>User</Table.Th>
          <Table.Th>State</Table.Th>
          <Table.Th visibleFrom="sm">Providers</Table.Th>
          <Table.Th visibleFrom="sm">Created</Table.Th>
          <Table.Th visibleFrom="md" className="truncate">
            Last sign-in
          </Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {list.users.map((user) => (
          <Table.Tr key={user.id}>
            <Table.Td w="100%" maw={0}>
              <Text size="sm" component="div" className="truncate">
                <PageLink search={{ user: user.id }}>{displayName(user)}</PageLink>
              </Text>
            </Table.Td>
            <Table.Td>
              <UserState user={user} />
            </Table.Td>
            <Table.Td visibleFrom="sm" className="truncate">
              {user.providers.join(', ')}
            </Table.Td>
            <Table.Td visibleFrom="sm" className="truncate">
              <Ago time={user.createdAt} />
            </Table.Td>
            <Table.Td visibleFrom="md" className="truncate">
              <Ago time={user.lastSignInAt} />
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
