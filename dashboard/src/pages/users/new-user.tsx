import {
  Button,
  Group,
  Modal,
  PasswordInput,
  SegmentedControl,
  Stack,
  Switch,
  Text,
  TextInput,
} from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconPlus } from '@tabler/icons-react';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState, type FormEvent } from 'react';
import { as, send } from '../../api.ts';
import { notifyDone } from '../../parts/notify.ts';
import { Failure } from '../../parts/states.tsx';
import { useCanWrite } from '../../session.ts';

export function NewUserButton() {
  const [isOpen, dialog] = useDisclosure(false);
  if (!useCanWrite()) return null;
  return (
    <>
      <Button size="xs" leftSection={<IconPlus size={16} />} onClick={dialog.open}>
        New user
      </Button>
      <Modal opened={isOpen} onClose={dialog.close} title="New user">
        <NewUserForm onDone={dialog.close} />
      </Modal>
    </>
  );
}

type Wanted = { how: 'password' | 'invite'; email: string; password: string; isConfirmed: boolean };

function make({ how, email, password, isConfirmed }: Wanted): Promise<{ id: string }> {
  return how === 'invite'
    ? send('POST', as('service', 'auth', 'invite'), { email })
    : send('POST', as('service', 'auth', 'admin/users'), { email, password, email_confirm: isConfirmed });
}

function NewUserForm({ onDone }: { onDone: () => void }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [how, setHow] = useState<Wanted['how']>('password');
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const [isConfirmed, setConfirmed] = useState(true);
  const creation = useMutation({
    mutationFn: make,
    onSuccess: async ({ id }) => {
      notifyDone(how === 'invite' ? `The invitation to ${email} is on its way` : `${email} was created`);
      onDone();
      await queries.invalidateQueries({ queryKey: ['users'] });
      await navigate({ to: '/users', search: { user: id } });
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    creation.mutate({ how, email: email.trim(), password, isConfirmed });
  };
  return (
    <form onSubmit={submit}>
      <Stack>
        <SegmentedControl
          aria-label="How"
          value={how}
          onChange={(value) => setHow(value === 'invite' ? 'invite' : 'password')}
          data={[
            { value: 'password', label: 'With a password' },
            { value: 'invite', label: 'By invitation' },
          ]}
        />
        <TextInput
          label="E-mail"
          type="email"
          required
          data-autofocus
          autoComplete="off"
          value={email}
          onChange={(event) => setEmail(event.currentTarget.value)}
        />
        {how === 'password' ? (
          <>
            <PasswordInput
              label="Password"
              required
              autoComplete="new-password"
              value={password}
              onChange={(event) => setPassword(event.currentTarget.value)}
              visibilityToggleButtonProps={{ 'aria-label': 'Show the password' }}
            />
            <Switch
              label="Confirm the address"
              description="If off, users must confirm it before they can sign in, provided that svc.yaml requires it"
              checked={isConfirmed}
              onChange={(event) => setConfirmed(event.currentTarget.checked)}
            />
          </>
        ) : (
          <Text size="sm" c="dimmed">
            Sends them a mail with a link to sign in and choose a password.
          </Text>
        )}
        {creation.isError && <Failure error={creation.error} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={onDone}>
            Cancel
          </Button>
          <Button
            type="submit"
            loading={creation.isPending}
            disabled={email.trim() === '' || (how === 'password' && password === '')}
          >
            {how === 'invite' ? 'Send invitation' : 'Create user'}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
