// Sends a broadcast to the watched channel, as the same caller.
import { Button, Group, Text, Textarea, TextInput } from '@mantine/core';
import { IconSend } from '@tabler/icons-react';
import { useMutation } from '@tanstack/react-query';
import { useState, type FormEvent } from 'react';
import type { RealtimeSend, RealtimeSent } from '../../../../src/dashboard-api/contract.ts';
import { send } from '../../api.ts';
import { Failure } from '../../parts/states.tsx';
import { useCanWrite } from '../../session.ts';
import type { Watched } from './use-watch.ts';

export function SendForm({ to }: { to: Watched }) {
  const canWrite = useCanWrite();
  const [event, setEvent] = useState('message');
  const [payload, setPayload] = useState('{ "text": "hello" }');
  const [mistake, setMistake] = useState<string>();
  const sending = useMutation({
    mutationFn: (body: RealtimeSend) => send<RealtimeSent>('POST', '/realtime/send', body),
  });
  const submit = (submitted?: FormEvent): void => {
    submitted?.preventDefault();
    if (!canWrite || event.trim() === '') return;
    try {
      const value: unknown = JSON.parse(payload);
      setMistake(undefined);
      const { caller, topic, private: isPrivate } = to;
      sending.mutate({ caller, topic, private: isPrivate, event: event.trim(), payload: value });
    } catch {
      setMistake('This is not JSON');
    }
  };
  return (
    <form
      onSubmit={submit}
      onKeyDown={(pressed) => {
        if (pressed.key === 'Enter' && (pressed.ctrlKey || pressed.metaKey)) submit();
      }}
    >
      <Group gap="sm" align="flex-start">
        <TextInput
          label="Event"
          size="xs"
          w={140}
          value={event}
          onChange={({ currentTarget }) => setEvent(currentTarget.value)}
        />
        <Textarea
          label="Payload"
          size="xs"
          flex={1}
          miw={180}
          autosize
          minRows={1}
          maxRows={8}
          spellCheck={false}
          styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
          value={payload}
          error={mistake}
          onChange={({ currentTarget }) => setPayload(currentTarget.value)}
        />
        <Button
          type="submit"
          size="xs"
          mt={20}
          leftSection={<IconSend size={14} />}
          loading={sending.isPending}
          disabled={!canWrite}
        >
          Send
        </Button>
      </Group>
      {!canWrite && (
        <Text size="xs" c="dimmed" mt={4}>
          This dashboard is read-only.
        </Text>
      )}
      {sending.isError && <Failure error={sending.error} />}
    </form>
  );
}
