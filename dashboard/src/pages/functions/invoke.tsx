// Calls a function as a chosen caller and shows the response.
import {
  Badge,
  Button,
  Code,
  Group,
  Input,
  NativeSelect,
  Stack,
  Table,
  Text,
  Textarea,
  TextInput,
  Title,
} from '@mantine/core';
import { IconPlayerPlay } from '@tabler/icons-react';
import { useMutation } from '@tanstack/react-query';
import { useState, type FormEvent } from 'react';
import type { CallerName, CodeFunctionInfo } from '../../../../src/dashboard-api/contract.ts';
import { as, exchange } from '../../api.ts';
import { CallerPicker, isCallerName } from '../../parts/caller-picker.tsx';
import { Copy } from '../../parts/copy.tsx';
import { formatBytes } from '../../parts/format.tsx';
import { usePageSearch } from '../../parts/search-params.ts';
import { Empty, Failure } from '../../parts/states.tsx';
import { useCanWrite } from '../../session.ts';
import { parseHeaders } from './headers.ts';

const METHODS = ['POST', 'GET', 'PUT', 'PATCH', 'DELETE', 'HEAD'];
/** Maximum length of a displayed body. */
const MAX_SHOWN_CHARACTERS = 200_000;

type Call = { method: string; query: string; headers: string; body: string; caller: CallerName };
type Answer = {
  status: number;
  statusText: string;
  headers: Array<[string, string]>;
  bytes: number;
  /** Null if the body is not text. */
  text: string | null;
  ms: number;
};

async function call(name: string, { method, query, headers, body, caller }: Call): Promise<Answer> {
  const started = performance.now();
  const path = `${encodeURIComponent(name)}${query === '' ? '' : `?${query.replace(/^\?/, '')}`}`;
  const response = await exchange(as(caller, 'functions', path), {
    method,
    headers: parseHeaders(headers).headers,
    ...(hasBody(method) && body !== '' ? { body } : {}),
  });
  const bytes = await response.arrayBuffer();
  const ms = performance.now() - started;
  return {
    status: response.status,
    statusText: response.statusText,
    headers: [...response.headers],
    bytes: bytes.byteLength,
    text: toText(bytes, response.headers.get('content-type') ?? ''),
    ms,
  };
}

function hasBody(method: string): boolean {
  return method !== 'GET' && method !== 'HEAD';
}

function toText(bytes: ArrayBuffer, contentType: string): string | null {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
  if (!/\bjson\b/.test(contentType)) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

export function Invoke({ info }: { info: CodeFunctionInfo }) {
  const [search, change] = usePageSearch();
  const caller = isCallerName(search['caller']) ? search['caller'] : 'anon';
  const [method, setMethod] = useState('POST');
  const [query, setQuery] = useState('');
  const [headers, setHeaders] = useState('content-type: application/json');
  const [body, setBody] = useState('{}');
  const canWrite = useCanWrite();
  const invoke = useMutation({ mutationFn: (wanted: Call) => call(info.name, wanted) });
  const { wrong } = parseHeaders(headers);
  const submit = (event?: FormEvent): void => {
    event?.preventDefault();
    if (canWrite && wrong === undefined) invoke.mutate({ method, query, headers, body, caller });
  };
  return (
    <Stack>
      <form
        onSubmit={submit}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) submit();
        }}
      >
        <Stack gap="sm">
          <Group gap="sm" align="flex-end">
            <NativeSelect
              label="Method"
              size="xs"
              w={104}
              data={METHODS}
              value={method}
              onChange={(event) => setMethod(event.currentTarget.value)}
            />
            <TextInput
              label="Query"
              size="xs"
              placeholder="dry_run=true"
              flex={1}
              miw={160}
              leftSection="?"
              spellCheck={false}
              value={query}
              onChange={(event) => setQuery(event.currentTarget.value)}
            />
            <Stack gap={0}>
              <Input.Label labelElement="div" size="xs">
                Called as
              </Input.Label>
              <CallerPicker value={caller} onChange={(chosen) => change({ caller: chosen })} />
            </Stack>
          </Group>
          <Textarea
            label="Headers"
            size="xs"
            description="One per line"
            autosize
            minRows={1}
            maxRows={8}
            spellCheck={false}
            error={wrong === undefined ? undefined : `Not “name: value”: ${wrong}`}
            styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)', fontSize: 13 } }}
            value={headers}
            onChange={(event) => setHeaders(event.currentTarget.value)}
          />
          {hasBody(method) && (
            <Textarea
              label="Body"
              size="xs"
              autosize
              minRows={4}
              maxRows={20}
              spellCheck={false}
              styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)', fontSize: 13 } }}
              value={body}
              onChange={(event) => setBody(event.currentTarget.value)}
            />
          )}
          <Group>
            <Button
              type="submit"
              size="xs"
              leftSection={<IconPlayerPlay size={16} />}
              loading={invoke.isPending}
              disabled={!canWrite || wrong !== undefined}
            >
              Invoke
            </Button>
            <Text size="sm" c="dimmed">
              {canWrite
                ? 'Sends a real request. Shortcut: Ctrl-Enter.'
                : 'This dashboard is read-only: functions cannot be called.'}
            </Text>
          </Group>
        </Stack>
      </form>
      {invoke.isError && <Failure error={invoke.error} />}
      {invoke.data && <AnswerView answer={invoke.data} />}
    </Stack>
  );
}

function AnswerView({ answer }: { answer: Answer }) {
  return (
    <Stack gap="xs" component="section" aria-label="Answer" aria-live="polite">
      <Group gap="xs">
        <Title order={3} size="h5">
          Answer
        </Title>
        <Badge
          color={answer.status < 300 ? 'teal' : answer.status < 500 ? 'yellow' : 'red'}
          variant="light"
          tt="none"
        >
          {answer.status} {answer.statusText}
        </Badge>
        <Text size="sm" c="dimmed">
          {answer.ms < 10 ? answer.ms.toFixed(1) : Math.round(answer.ms)} ms · {formatBytes(answer.bytes)}
        </Text>
        {answer.text !== null && answer.text !== '' && <Copy value={answer.text} label="body" />}
      </Group>
      <AnswerBody answer={answer} />
      <details>
        <summary>
          <Text span size="sm">
            {answer.headers.length} headers
          </Text>
        </summary>
        <Table mt={4} verticalSpacing={2}>
          <Table.Tbody>
            {answer.headers.map(([name, value]) => (
              <Table.Tr key={name}>
                <Table.Th fw={500}>{name}</Table.Th>
                <Table.Td className="mono" style={{ overflowWrap: 'anywhere' }}>
                  {value}
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </details>
    </Stack>
  );
}

function AnswerBody({ answer }: { answer: Answer }) {
  if (answer.bytes === 0) return <Empty title="The answer has no body" />;
  if (answer.text === null) return <Empty title={`${formatBytes(answer.bytes)} of binary data`} />;
  return (
    <Code
      block
      tabIndex={0}
      role="region"
      aria-label="Body of the answer"
      mah={480}
      style={{ overflow: 'auto' }}
    >
      {answer.text.slice(0, MAX_SHOWN_CHARACTERS)}
      {answer.text.length > MAX_SHOWN_CHARACTERS && '\n…'}
    </Code>
  );
}
