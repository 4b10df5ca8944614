// Edits the properties of a user that an administrator may change. Sends only changed properties.
import {
  Button,
  Code,
  Group,
  Input,
  Modal,
  PasswordInput,
  SimpleGrid,
  Stack,
  Switch,
  Text,
  TextInput,
  Title,
} from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState, type FormEvent } from 'react';
import type { UserDetail } from '../../../../src/dashboard-api/contract.ts';
import { as, send } from '../../api.ts';
import { CodeEditor } from '../../parts/code-editor.tsx';
import { notifyDone } from '../../parts/notify.ts';
import { Failure } from '../../parts/states.tsx';
import { useCanWrite } from '../../session.ts';
import { metadataChange, parseMetadata } from './metadata.ts';
import { displayName } from './name.tsx';

const pretty = (value: unknown): string => JSON.stringify(value, null, 2);

export function Profile({ user }: { user: UserDetail }) {
  const [isOpen, setOpen] = useState(false);
  const canWrite = useCanWrite();
  return (
    <Stack component="section" aria-label="Profile" gap="xs">
      <Group justify="space-between">
        <Title order={3} size="h5">
          Profile
        </Title>
        {canWrite && (
          <Button size="xs" variant="default" onClick={() => setOpen(true)}>
            Edit
          </Button>
        )}
      </Group>
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        <Json title="User metadata" note="The user may change it" value={user.userMetadata} />
        <Json title="App metadata" note="Only the service may change it" value={user.appMetadata} />
      </SimpleGrid>
      <Modal opened={isOpen} onClose={() => setOpen(false)} title={`Edit ${displayName(user)}`} size="lg">
        <ProfileForm user={user} onDone={() => setOpen(false)} />
      </Modal>
    </Stack>
  );
}

function Json({ title, note, value }: { title: string; note: string; value: unknown }) {
  return (
    <Stack gap={4} miw={0}>
      <Text size="sm" fw={600}>
        {title}{' '}
        <Text span size="xs" c="dimmed" fw={400}>
          {note}
        </Text>
      </Text>
      <Code block tabIndex={0} role="region" aria-label={title} mah={240}>
        {pretty(value)}
      </Code>
    </Stack>
  );
}

function ProfileForm({ user, onDone }: { user: UserDetail; onDone: () => void }) {
  const queries = useQueryClient();
  const [email, setEmail] = useState(user.email ?? '');
  const [phone, setPhone] = useState(user.phone === null ? '' : `+${user.phone}`);
  const [password, setPassword] = useState('');
  const [confirms, setConfirms] = useState(false);
  const [userText, setUserText] = useState(pretty(user.userMetadata));
  const [appText, setAppText] = useState(pretty(user.appMetadata));
  const userMetadata = parseMetadata(userText);
  const appMetadata = parseMetadata(appText);
  const saving = useMutation({
    mutationFn: () =>
      send('PUT', as('service', 'auth', `admin/users/${user.id}`), {
        ...(email.trim() === (user.email ?? '') ? {} : { email: email.trim() }),
        ...(phone.trim().replace(/^\+/, '') === (user.phone ?? '') ? {} : { phone: phone.trim() }),
        ...(password === '' ? {} : { password }),
        ...(confirms
          ? user.email === null && email === ''
            ? { phone_confirm: true }
            : { email_confirm: true }
          : {}),
        ...(userMetadata && userText !== pretty(user.userMetadata)
          ? { user_metadata: metadataChange(user.userMetadata, userMetadata) }
          : {}),
        ...(appMetadata && appText !== pretty(user.appMetadata)
          ? { app_metadata: metadataChange(user.appMetadata, appMetadata) }
          : {}),
      }),
    onSuccess: async () => {
      notifyDone('The user was changed');
      onDone();
      await queries.invalidateQueries({ queryKey: ['users'] });
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (userMetadata && appMetadata) saving.mutate();
  };
  return (
    <form onSubmit={submit}>
      <Stack>
        <SimpleGrid cols={{ base: 1, sm: 2 }}>
          <TextInput
            label="E-mail"
            type="email"
            autoComplete="off"
            value={email}
            onChange={(event) => setEmail(event.currentTarget.value)}
          />
          <TextInput
            label="Phone"
            type="tel"
            placeholder="+4915112345678"
            autoComplete="off"
            value={phone}
            onChange={(event) => setPhone(event.currentTarget.value)}
          />
        </SimpleGrid>
        <PasswordInput
          label="New password"
          description="Leave empty to keep the password. A new one ends all sessions of the user."
          autoComplete="new-password"
          value={password}
          onChange={(event) => setPassword(event.currentTarget.value)}
          visibilityToggleButtonProps={{ 'aria-label': 'Show the password' }}
        />
        {user.confirmedAt === null && (
          <Switch
            label="Mark the address as confirmed"
            checked={confirms}
            onChange={(event) => setConfirms(event.currentTarget.checked)}
          />
        )}
        <Metadata
          label="User metadata"
          text={userText}
          onChange={setUserText}
          isValid={userMetadata !== undefined}
        />
        <Metadata
          label="App metadata"
          text={appText}
          onChange={setAppText}
          isValid={appMetadata !== undefined}
        />
        {saving.isError && <Failure error={saving.error} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={onDone}>
            Cancel
          </Button>
          <Button type="submit" loading={saving.isPending} disabled={!userMetadata || !appMetadata}>
            Save
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

function Metadata({
  label,
  text,
  onChange,
  isValid,
}: {
  label: string;
  text: string;
  onChange: (text: string) => void;
  isValid: boolean;
}) {
  return (
    <Stack gap={4}>
      <Input.Label labelElement="div">{label}</Input.Label>
      <CodeEditor
        language="json"
        label={label}
        minHeight={80}
        maxHeight={240}
        value={text}
        onChange={onChange}
      />
      {!isValid && (
        <Text size="xs" c="red" role="alert">
          Not a JSON object
        </Text>
      )}
    </Stack>
  );
}
