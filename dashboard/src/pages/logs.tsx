// Follows the log of this instance.
import { Badge, Button, Group, NativeSelect, Text } from '@mantine/core';
import { IconPlayerPause, IconPlayerPlay } from '@tabler/icons-react';
import { useDeferredValue, useMemo, useState } from 'react';
import type { LogLine } from '../../../src/dashboard-api/contract.ts';
import { formatCount } from '../parts/format.tsx';
import { Page as Frame } from '../parts/page.tsx';
import { SearchBox } from '../parts/search-box.tsx';
import { usePageSearch } from '../parts/search-params.ts';
import { Empty, Waiting } from '../parts/states.tsx';
import { LogList } from './logs/log-list.tsx';
import { useLogStream, type LogStream } from './logs/use-log-stream.ts';

const LEVELS: ReadonlyArray<LogLine['level']> = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'];

export function Page() {
  const [search, change] = usePageSearch();
  const [isPaused, setPaused] = useState(false);
  const stream = useLogStream(isPaused);
  const least = search['level'] ?? 'trace';
  const source = search['source'] ?? 'all';
  const text = useDeferredValue(search['text'] ?? '');
  const shown = useMemo(
    () => stream.lines.filter((line) => fits(line, { least, source, text })),
    [stream.lines, least, source, text],
  );
  return (
    <Frame
      title={
        <Group gap="xs" component="span">
          Logs <StreamState state={stream.state} isPaused={isPaused} />
        </Group>
      }
      description={
        'The latest lines of this instance, kept in memory. ' +
        'For other instances and older lines, use the log storage of the service.'
      }
      actions={
        <>
          <Button size="xs" variant="default" onClick={stream.clear}>
            Clear
          </Button>
          <Button
            size="xs"
            variant={isPaused ? 'filled' : 'default'}
            leftSection={isPaused ? <IconPlayerPlay size={16} /> : <IconPlayerPause size={16} />}
            onClick={() => setPaused(!isPaused)}
          >
            {isPaused ? `Continue${stream.held > 0 ? ` (${formatCount(stream.held)} new)` : ''}` : 'Pause'}
          </Button>
        </>
      }
    >
      <Group gap="xs">
        <SearchBox
          label="Search the lines"
          value={search['text'] ?? ''}
          onChange={(value) => change({ text: value === '' ? undefined : value })}
        />
        <NativeSelect
          size="xs"
          aria-label="Minimum level"
          value={least}
          onChange={({ currentTarget: { value } }) =>
            change({ level: value === 'trace' ? undefined : value })
          }
          data={LEVELS.map((level) => ({
            value: level,
            label: level === 'trace' ? 'all levels' : level === 'fatal' ? 'fatal' : `${level} and above`,
          }))}
        />
        <NativeSelect
          size="xs"
          aria-label="Source"
          value={source}
          onChange={({ currentTarget: { value } }) => change({ source: value === 'all' ? undefined : value })}
          data={[
            { value: 'all', label: 'all sources' },
            { value: 'request', label: 'requests' },
            { value: 'function', label: 'code functions' },
            { value: 'service', label: 'the service' },
          ]}
        />
        <Text size="sm" c="dimmed">
          {shown.length === stream.lines.length
            ? `${formatCount(shown.length)} lines`
            : `${formatCount(shown.length)} of ${formatCount(stream.lines.length)} lines`}
        </Text>
      </Group>
      {shown.length > 0 ? (
        <LogList lines={shown} />
      ) : stream.lines.length > 0 ? (
        <Empty title="No matching lines">Try another level, source or search.</Empty>
      ) : stream.state === 'connecting' ? (
        <Waiting />
      ) : (
        <Empty title="Nothing logged yet">The next request appears here.</Empty>
      )}
    </Frame>
  );
}

function StreamState({ state, isPaused }: { state: LogStream['state']; isPaused: boolean }) {
  if (state === 'broken') {
    return (
      <Badge color="red" variant="light" role="status">
        disconnected, retrying
      </Badge>
    );
  }
  if (isPaused) {
    return (
      <Badge color="gray" variant="light" role="status">
        paused
      </Badge>
    );
  }
  return (
    <Badge color={state === 'live' ? 'teal' : 'gray'} variant="light" role="status">
      {state}
    </Badge>
  );
}

type Wanted = { least: string; source: string; text: string };

function fits(line: LogLine, { least, source, text }: Wanted): boolean {
  if (LEVELS.indexOf(line.level) < LEVELS.findIndex((level) => level === least)) return false;
  if (source !== 'all' && line.source !== source) return false;
  if (text === '') return true;
  const wanted = text.toLowerCase();
  return (
    line.message.toLowerCase().includes(wanted) ||
    (line.functionName?.toLowerCase().includes(wanted) ?? false) ||
    JSON.stringify(line.fields).toLowerCase().includes(wanted)
  );
}
