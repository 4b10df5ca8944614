import {
  Button,
  Code,
  Group,
  SimpleGrid,
  Stack,
  Switch,
  TagsInput,
  Text,
  TextInput,
  Title,
} from '@mantine/core';
import { useState, type FormEvent, type ReactNode } from 'react';
import type { AuthSettings } from '../../../../src/dashboard-api/contract.ts';
import type { ProposedChange } from '../../parts/plan-review.tsx';
import { useCanWrite } from '../../session.ts';
import { isDuration, settingEdits, toForm } from './setting-edits.ts';

type SettingsProps = { settings: AuthSettings; onReview: (change: ProposedChange) => void };

export function Settings({ settings, onReview }: SettingsProps) {
  const before = toForm(settings);
  const [form, setForm] = useState(before);
  const canWrite = useCanWrite();
  const edits = settingEdits(before, form);
  const wrong = (text: string): string | undefined =>
    isDuration(text) ? undefined : 'A duration such as 15m, 1h or 7d';
  const isValid = isDuration(form.jwtExpiry) && isDuration(form.refreshTokenExpiry);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (isValid && edits.length > 0) onReview({ edits });
  };
  return (
    <form onSubmit={submit}>
      <Stack gap="xl" maw={720}>
        <Section title="Who may sign up">
          <Switch
            label="Allow sign-up"
            description="If off, users need an invitation"
            disabled={!canWrite}
            checked={form.allowSignup}
            onChange={(event) => setForm({ ...form, allowSignup: event.currentTarget.checked })}
          />
          <Switch
            label="Anonymous sign-in"
            description="Creates accounts without an address; users can add one later. Needs sign-up."
            disabled={!canWrite}
            checked={form.allowAnonymous}
            onChange={(event) => setForm({ ...form, allowAnonymous: event.currentTarget.checked })}
          />
        </Section>
        <Section title="Tokens">
          <SimpleGrid cols={{ base: 1, xs: 2 }}>
            <TextInput
              label="Access token lifetime"
              description="At least 2m"
              disabled={!canWrite}
              value={form.jwtExpiry}
              error={wrong(form.jwtExpiry)}
              onChange={(event) => setForm({ ...form, jwtExpiry: event.currentTarget.value })}
            />
            <TextInput
              label="Refresh token lifetime"
              description="Time after which an unused session ends"
              disabled={!canWrite}
              value={form.refreshTokenExpiry}
              error={wrong(form.refreshTokenExpiry)}
              onChange={(event) => setForm({ ...form, refreshTokenExpiry: event.currentTarget.value })}
            />
          </SimpleGrid>
          <Text size="sm">
            {settings.revocation === 'immediate'
              ? 'Tokens of ended sessions and banned users are rejected immediately.'
              : 'Tokens of ended sessions and banned users are accepted until they expire.'}
          </Text>
        </Section>
        <Section title="Redirects after sign-in">
          <TagsInput
            label="Redirect URLs"
            description="The first one is the default. Press Enter to add one."
            placeholder={canWrite ? 'https://app.example.com' : undefined}
            disabled={!canWrite}
            value={[...form.redirectUrls]}
            onChange={(redirectUrls) => setForm({ ...form, redirectUrls })}
          />
        </Section>
        <Section title="E-mail">
          <Text size="sm">
            {settings.email.provider === null ? (
              <>
                No mail is sent: <Code>providers.email</Code> is not configured.
              </>
            ) : settings.email.provider === 'catch' ? (
              'svc dev keeps every mail on the Mail page.'
            ) : (
              <>
                Sent by <Code>{settings.email.provider}</Code> from <Code>{settings.email.from}</Code>.
              </>
            )}{' '}
            {settings.email.enabled ? (
              'Magic links and one-time passwords are on.'
            ) : (
              <>
                Magic links and one-time passwords are off: they come with an <Code>auth.email</Code> block.
              </>
            )}
          </Text>
          <Switch
            label="Require a confirmed address"
            description="Users must follow the link in the mail before they get a session"
            disabled={!canWrite}
            checked={form.verifyEmail}
            onChange={(event) => setForm({ ...form, verifyEmail: event.currentTarget.checked })}
          />
        </Section>
        {canWrite ? (
          <Group>
            <Button type="submit" disabled={!isValid || edits.length === 0}>
              Review change
            </Button>
            {edits.length > 0 && (
              <Button variant="default" onClick={() => setForm(before)}>
                Undo
              </Button>
            )}
          </Group>
        ) : (
          <Text size="sm" c="dimmed">
            This dashboard is read only: change svc.yaml instead.
          </Text>
        )}
      </Stack>
    </form>
  );
}

function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Stack gap="sm" component="section" aria-label={title}>
      <Title order={3} size="h5">
        {title}
      </Title>
      {children}
    </Stack>
  );
}
