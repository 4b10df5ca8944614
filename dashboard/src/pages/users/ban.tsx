import { Button, NativeSelect, Stack, Text } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { UserDetail } from '../../../../src/dashboard-api/contract.ts';
import { as, send } from '../../api.ts';
import { Confirm } from '../../parts/confirm.tsx';
import { notifyDone } from '../../parts/notify.ts';
import { isBanned, displayName } from './name.tsx';

const DURATIONS = [
  { value: '1h', label: 'for an hour' },
  { value: '24h', label: 'for a day' },
  { value: '168h', label: 'for a week' },
  { value: '720h', label: 'for 30 days' },
  { value: '876000h', label: 'permanently' },
];

export function Ban({ user }: { user: UserDetail }) {
  const queries = useQueryClient();
  const [isOpen, setOpen] = useState(false);
  // The dialog keeps its content while it closes, although the user has changed by then.
  const [lifts, setLifts] = useState(false);
  const [duration, setDuration] = useState('24h');
  const name = displayName(user);
  const banned = isBanned(user);
  const open = (): void => {
    setLifts(banned);
    setOpen(true);
  };
  const confirm = async (): Promise<void> => {
    await send('PUT', as('service', 'auth', `admin/users/${user.id}`), {
      ban_duration: lifts ? 'none' : duration,
    });
    notifyDone(lifts ? `${name} may sign in again` : `${name} is banned`);
    await queries.invalidateQueries({ queryKey: ['users'] });
  };
  return (
    <>
      <Button size="xs" variant="default" onClick={open}>
        {banned ? 'Lift ban' : 'Ban'}
      </Button>
      <Confirm
        opened={isOpen}
        onClose={() => setOpen(false)}
        title={lifts ? `Lift the ban on ${name}` : `Ban ${name}`}
        act={lifts ? 'Lift ban' : 'Ban user'}
        onConfirm={confirm}
      >
        {lifts ? (
          <Text size="sm">They can sign in again immediately.</Text>
        ) : (
          <Stack gap="sm">
            <Text size="sm">
              They cannot sign in or refresh a session during the ban. Existing access tokens work until they
              expire.
            </Text>
            <NativeSelect
              label="Duration"
              data={DURATIONS}
              value={duration}
              onChange={(event) => setDuration(event.currentTarget.value)}
            />
          </Stack>
        )}
      </Confirm>
    </>
  );
}
