// Lists open channels and watches one of them as a chosen caller.
import { Alert, Badge, Code, Grid, Group, Paper, SimpleGrid, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { RealtimeLive } from '../../../src/dashboard-api/contract.ts';
import { get } from '../api.ts';
import { formatCount, formatDuration } from '../parts/format.tsx';
import { Page as Frame } from '../parts/page.tsx';
import { Empty, Loaded } from '../parts/states.tsx';
import { ChannelList } from './realtime/channel-list.tsx';
import { Inspector } from './realtime/inspector.tsx';
import { formatRate, useRates, type Rates } from './realtime/use-rates.ts';

const REFRESH_MS = 2_000;

export function Page() {
  const live = useQuery({
    queryKey: ['realtime'],
    queryFn: ({ signal }) => get<RealtimeLive>('/realtime', signal),
    refetchInterval: REFRESH_MS,
  });
  const rates = useRates(live.data, live.dataUpdatedAt);
  return (
    <Frame
      title="Realtime"
      description={
        'Open channels, and the messages of one channel as a caller receives them. ' +
        'Messages are not stored: you see only those that arrive while you watch.'
      }
    >
      <Loaded query={live}>
        {(seen) =>
          seen.enabled ? (
            <>
              <Figures live={seen} rates={rates} />
              <Notes live={seen} />
              <Grid gap="md">
                <Grid.Col span={{ base: 12, lg: 5 }}>
                  <ChannelList live={seen} rates={rates} />
                </Grid.Col>
                <Grid.Col span={{ base: 12, lg: 7 }}>
                  <Inspector live={seen} />
                </Grid.Col>
              </Grid>
            </>
          ) : (
            <Empty title="Realtime is disabled">
              Remove <Code>enabled: false</Code> under <Code>realtime</Code> in svc.yaml.
            </Empty>
          )
        }
      </Loaded>
    </Frame>
  );
}

function Figures({ live, rates }: { live: RealtimeLive; rates: Rates }) {
  const { instances } = live;
  const sum = (read: (instance: RealtimeLive['instances'][number]) => number): number =>
    instances.reduce((total, instance) => total + read(instance), 0);
  const several = instances.length > 1 ? `on ${instances.length} instances` : 'on one instance';
  return (
    <SimpleGrid cols={{ base: 2, md: 4 }} spacing="sm">
      <Figure name="Sockets" value={formatCount(sum(({ sockets }) => sockets))} note={several} />
      <Figure
        name="Messages to members"
        value={rates.all === undefined ? '–' : formatRate(rates.all)}
        note={skippedNote(sum(({ skipped }) => skipped))}
      />
      <Figure
        name="Rejected joins"
        value={formatCount(sum(({ refused }) => refused))}
        note="since the start"
      />
      <Figure name="Table changes" value={<Source live={live} />} note={lagNote(live)} />
    </SimpleGrid>
  );
}

function Figure({ name, value, note }: { name: string; value: ReactNode; note: string }) {
  return (
    <Paper withBorder px="md" py="sm" component="section" aria-label={name}>
      <Text size="xs" c="dimmed">
        {name}
      </Text>
      <Title order={3} size="h4" component="div">
        {value}
      </Title>
      <Text size="xs" c="dimmed" mih={19}>
        {note}
      </Text>
    </Paper>
  );
}

const SOURCE = {
  live: { color: 'teal', text: 'live' },
  triggers: { color: 'teal', text: 'live, via triggers' },
  connecting: { color: 'yellow', text: 'connecting' },
  degraded: { color: 'red', text: 'not readable' },
  off: { color: 'gray', text: 'off' },
} as const;

/** Shows the worst state of all instances. */
function Source({ live: { instances } }: { live: RealtimeLive }) {
  const states = new Set(instances.map(({ state }) => state));
  const worst =
    (['degraded', 'connecting', 'off', 'triggers', 'live'] as const).find((state) => states.has(state)) ??
    'off';
  return (
    <Badge variant="light" color={SOURCE[worst].color} mt={4}>
      {SOURCE[worst].text}
    </Badge>
  );
}

function lagNote({ instances, published }: RealtimeLive): string {
  const lag = Math.max(0, ...instances.map(({ lagMs }) => lagMs));
  const tables = `${published.length} ${published.length === 1 ? 'table' : 'tables'}`;
  return lag > 0 ? `${tables}, ${formatDuration(lag)} behind` : tables;
}

function skippedNote(skipped: number): string {
  return skipped === 0 ? 'of all channels' : `${formatCount(skipped)} skipped for slow readers`;
}

function Notes({ live: { silent, instances } }: { live: RealtimeLive }) {
  return (
    <>
      {silent > 0 && (
        <Alert color="yellow" title={`${silent} of ${silent + instances.length} instances did not answer`}>
          <Text size="sm">Their sockets and channels are missing here.</Text>
        </Alert>
      )}
      {instances.some(({ state }) => state === 'degraded') && (
        <Alert color="red" title="Table changes cannot be read">
          <Group gap={4}>
            <Text size="sm">See the log of the service for the reason. Everything else works.</Text>
          </Group>
        </Alert>
      )}
    </>
  );
}
