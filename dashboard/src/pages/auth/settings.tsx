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
import type { WantedChange } from '../../parts/plan-review.tsx';
import { useMayWrite } from '../../session.ts';
import { isDuration, settingEdits, toForm } from './setting-edits.ts';

type SettingsProps = { settings: AuthSettings; onReview: (change: WantedChange) => void };

export function Settings({ settings, onReview }: SettingsProps) {
  const before = toForm(settings);
  const [form, setForm] = useState(before);
  const mayWrite = useMayWrite();
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
            label="Anybody may sign up"
            description="Off: by invitation only"
            disabled={!mayWrite}
            checked={form.allowSignup}
            onChange={(event) => setForm({ ...form, allowSignup: event.currentTarget.checked })}
          />
          <Switch
            label="Anonymous sign-in"
            description="An account without an address, which can become a full one later; needs sign-up"
            disabled={!mayWrite}
            checked={form.allowAnonymous}
            onChange={(event) => setForm({ ...form, allowAnonymous: event.currentTarget.checked })}
          />
        </Section>
        <Section title="Tokens">
          <SimpleGrid cols={{ base: 1, xs: 2 }}>
            <TextInput
              label="Access token lifetime"
              description="At least 2m"
              disabled={!mayWrite}
              value={form.jwtExpiry}
              error={wrong(form.jwtExpiry)}
              onChange={(event) => setForm({ ...form, jwtExpiry: event.currentTarget.value })}
            />
            <TextInput
              label="Refresh token lifetime"
              description="How long a session lasts without being used"
              disabled={!mayWrite}
              value={form.refreshTokenExpiry}
              error={wrong(form.refreshTokenExpiry)}
              onChange={(event) => setForm({ ...form, refreshTokenExpiry: event.currentTarget.value })}
            />
          </SimpleGrid>
        </Section>
        <Section title="Where browsers may be sent after sign-in">
          <TagsInput
            label="Redirect URLs"
            description="The first one is used when a sign-in names none. Press Enter to add one."
            placeholder={mayWrite ? 'https://app.example.com' : undefined}
            disabled={!mayWrite}
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
              'No provider is configured, so svc dev keeps every mail on the Mail page.'
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
            description="No session until the link in the mail has been followed"
            disabled={!mayWrite}
            checked={form.verifyEmail}
            onChange={(event) => setForm({ ...form, verifyEmail: event.currentTarget.checked })}
          />
        </Section>
        {mayWrite ? (
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
