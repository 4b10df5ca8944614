// Selects a caller: the service (bypasses every policy), anon (without a session), or a user.
import { Select } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { CallerName, UserList } from '../../../src/dashboard-api/contract.ts';
import { get } from '../api.ts';

export function isCallerName(text: string | undefined): text is CallerName {
  return text === 'service' || text === 'anon' || /^user:[0-9a-f-]{36}$/.test(text ?? '');
}

const SERVICE = 'service (bypasses every policy)';
const ANON = 'anon (not signed in)';

export function CallerPicker({
  value,
  onChange,
}: {
  value: CallerName;
  onChange: (caller: CallerName) => void;
}) {
  const [search, setSearch] = useState('');
  const [chosenLabel, setChosenLabel] = useState('');
  // The field shows the label of the chosen caller. That label is not a search.
  const [settled] = useDebouncedValue([chosenLabel, SERVICE, ANON].includes(search) ? '' : search, 200);
  const users = useQuery({
    queryKey: ['users', 'picker', settled],
    queryFn: ({ signal }) =>
      get<UserList>(`/users?per_page=20&search=${encodeURIComponent(settled)}`, signal),
    placeholderData: keepPreviousData,
  });
  const options = (users.data?.users ?? []).map((user) => ({
    value: `user:${user.id}`,
    label: user.email ?? user.phone ?? `anonymous ${user.id.slice(0, 8)}`,
  }));
  // Keep the chosen user in the list, whatever the search.
  if (value.startsWith('user:') && !options.some((option) => option.value === value)) {
    options.unshift({ value, label: `user ${value.slice(5, 13)}` });
  }
  return (
    <Select
      aria-label="Caller"
      size="xs"
      w={240}
      searchable
      allowDeselect={false}
      value={value}
      onSearchChange={setSearch}
      onChange={(chosen, option) => {
        setChosenLabel(option?.label ?? '');
        if (chosen !== null && isCallerName(chosen)) onChange(chosen);
      }}
      nothingFoundMessage="No user found"
      // The server has already filtered the users.
      filter={({ options: all }) => all}
      data={[
        {
          group: 'Keys',
          items: [
            { value: 'service', label: SERVICE },
            { value: 'anon', label: ANON },
          ],
        },
        { group: 'Users', items: options },
      ]}
    />
  );
}
