// Joins a channel as a chosen caller. The policies apply as for that caller's own client.
import {
  Badge,
  Button,
  Checkbox,
  Code,
  Group,
  Input,
  MultiSelect,
  Paper,
  Stack,
  Text,
  TextInput,
  Title,
} from '@mantine/core';
import { IconEar, IconX } from '@tabler/icons-react';
import { useState, type FormEvent } from 'react';
import type { RealtimeLive } from '../../../../src/dashboard-api/contract.ts';
import { CallerPicker, isCallerName } from '../../parts/caller-picker.tsx';
import { formatCount } from '../../parts/format.tsx';
import { usePageSearch } from '../../parts/search-params.ts';
import { Empty, Waiting } from '../../parts/states.tsx';
import { FrameList } from './frame-list.tsx';
import classes from './realtime.module.css';
import { SendForm } from './send-form.tsx';
import { useWatch, type WatchState } from './use-watch.ts';

const STATES: Readonly<Record<WatchState, { readonly color: string; readonly text: string } | undefined>> = {
  idle: undefined,
  joining: { color: 'gray', text: 'joining' },
  joined: { color: 'teal', text: 'joined' },
  refused: { color: 'red', text: 'refused' },
  closed: { color: 'red', text: 'closed' },
  broken: { color: 'red', text: 'disconnected, retrying' },
};

export function Inspector({ live }: { live: RealtimeLive }) {
  const [search, change] = usePageSearch();
  const [tables, setTables] = useState<string[]>([]);
  const { frames, state, watched, join, leave, clear } = useWatch();
  const topic = search['topic'] ?? '';
  const isPrivate = search['private'] === undefined ? live.privateOnly : search['private'] === 'yes';
  const caller = isCallerName(search['caller']) ? search['caller'] : 'service';
  const isOpen = state === 'joining' || state === 'joined' || state === 'broken';
  const shown = STATES[state];

  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (topic !== '') join({ caller, topic, private: isPrivate, tables });
  };

  return (
    <Paper withBorder component="section" aria-label="Watch a channel" className={classes['panel']}>
      <form onSubmit={submit}>
        <Stack gap="sm" px="md" py="sm">
          <Group gap="xs" mih={30}>
            <Title order={3} size="h5">
              Watch a channel
            </Title>
            {shown && (
              <Badge variant="light" color={shown.color} role="status">
                {shown.text}
              </Badge>
            )}
          </Group>
          <Group gap="sm" align="flex-end">
            <TextInput
              label="Channel"
              size="xs"
              placeholder="room:1"
              flex={1}
              miw={160}
              spellCheck={false}
              value={topic}
              onChange={({ currentTarget: { value } }) => change({ topic: value === '' ? undefined : value })}
            />
            <Stack gap={0}>
              <Input.Label labelElement="div" size="xs">
                Watch as
              </Input.Label>
              <CallerPicker
                value={caller}
                onChange={(next) => change({ caller: next === 'service' ? undefined : next })}
              />
            </Stack>
          </Group>
          <Group gap="sm" align="flex-end" justify="space-between">
            {live.published.length > 0 && (
              <MultiSelect
                label="Tables"
                size="xs"
                flex={1}
                miw={160}
                placeholder={tables.length === 0 ? 'no table' : ''}
                data={live.published.map((name) => ({ value: name, label: name.replace(/^public\./, '') }))}
                value={tables}
                onChange={setTables}
                clearable
              />
            )}
            <Checkbox
              label="Private"
              size="xs"
              mb={7}
              checked={isPrivate}
              onChange={({ currentTarget: { checked } }) => change({ private: checked ? 'yes' : 'no' })}
            />
            <Group gap="xs">
              {isOpen && (
                <Button size="xs" variant="default" leftSection={<IconX size={14} />} onClick={leave}>
                  Leave
                </Button>
              )}
              <Button
                type="submit"
                size="xs"
                variant={isOpen ? 'default' : 'filled'}
                leftSection={<IconEar size={14} />}
                disabled={topic === ''}
              >
                {isOpen ? 'Join again' : 'Join'}
              </Button>
            </Group>
          </Group>
          {live.privateOnly && !isPrivate && (
            <Text size="xs" c="dimmed">
              This project allows only private channels. Joins of public channels are rejected.
            </Text>
          )}
        </Stack>
      </form>
      {watched && (
        <>
          <Group justify="space-between" px="md" py={6} className={classes['bar']} wrap="nowrap">
            <Text size="xs" c="dimmed" className="truncate">
              <span className="mono">{watched.topic}</span>
              {watched.private ? ', private' : ', public'}
            </Text>
            <Group gap="xs" wrap="nowrap">
              <Text size="xs" c="dimmed">
                {formatCount(frames.length)} {frames.length === 1 ? 'message' : 'messages'}
              </Text>
              <Button size="compact-xs" variant="default" onClick={clear}>
                Clear
              </Button>
            </Group>
          </Group>
          {state === 'refused' && <Refusal hasPolicies={live.hasPolicies} isPrivate={watched.private} />}
          {frames.length > 0 ? (
            <FrameList frames={frames} />
          ) : isOpen && state !== 'joined' ? (
            <Waiting rows={3} />
          ) : (
            <Empty title="No message yet" />
          )}
          <Stack px="md" py="sm" className={classes['bar']}>
            <SendForm to={watched} />
          </Stack>
        </>
      )}
      {!watched && (
        <Empty title="Choose a channel">
          Choose one from the list or enter its name. The caller counts as a member while this page watches.
        </Empty>
      )}
    </Paper>
  );
}

function Refusal({ hasPolicies, isPrivate }: { hasPolicies: boolean; isPrivate: boolean }) {
  if (!isPrivate) return null;
  return (
    <Text size="xs" c="dimmed" px="md" pb="xs">
      {hasPolicies ? (
        <>
          A <Code>select</Code> policy under <Code>realtime.rls</Code> must allow the caller to receive a
          private channel.
        </>
      ) : (
        <>
          Without a policy under <Code>realtime.rls</Code> only the service may use private channels.
        </>
      )}
    </Text>
  );
}
