// What statements cost the database: where its time goes, and how to have PostgreSQL count it.
import { Alert, Code, List, SegmentedControl, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { ExtensionMissing, StatementList } from '../../../src/dashboard-api/contract.ts';
import { get } from '../api.ts';
import { Ago, formatCount } from '../parts/format.tsx';
import { Page as Frame } from '../parts/page.tsx';
import { SearchBox } from '../parts/search-box.tsx';
import { usePageSearch } from '../parts/search-params.ts';
import { Empty, Loaded } from '../parts/states.tsx';
import { isOrder, ORDERS, StatementTable } from './statements/statement-table.tsx';

const REFRESH_MS = 10_000;

export function Page() {
  const [search, change] = usePageSearch();
  const list = useQuery({
    queryKey: ['statements'],
    queryFn: ({ signal }) => get<StatementList>('/statements', signal),
    refetchInterval: REFRESH_MS,
  });
  const text = search['text'] ?? '';
  const order = isOrder(search['order']) ? search['order'] : 'totalMs';
  return (
    <Frame
      title="Statements"
      description="Where the time of the database goes. Values are not part of it."
      actions={
        <>
          <SegmentedControl
            aria-label="Order"
            size="xs"
            value={order}
            onChange={(next) => change({ order: next === 'totalMs' ? undefined : next })}
            data={ORDERS.map(({ by, name }) => ({ value: by, label: name }))}
          />
          <SearchBox
            label="Search statements"
            value={text}
            onChange={(next) => change({ text: next === '' ? undefined : next })}
          />
        </>
      }
    >
      <Loaded query={list}>
        {(seen) => (
          <Stack gap="md">
            <Counted list={seen} />
            {seen.missing && <HowToEnable missing={seen.missing} />}
            {seen.statements.length === 0 ? (
              <Empty title="No statement yet">The first request that reads the database makes one.</Empty>
            ) : (
              <StatementTable statements={seen.statements} order={order} text={text} />
            )}
          </Stack>
        )}
      </Loaded>
    </Frame>
  );
}

function Counted({ list: { source, since, process, more } }: { list: StatementList }) {
  return (
    <Text size="sm" c="dimmed">
      {source === 'pg_stat_statements'
        ? 'Counted by PostgreSQL for this database and the roles of svc, all instances together'
        : process === null
          ? 'Counted by this instance: statements of requests'
          : `Counted by process ${process}, one of several: statements of its requests`}
      {since !== null && (
        <>
          , since <Ago time={since} />
        </>
      )}
      .
      {more > 0 &&
        (source === 'own'
          ? ' Some that ran seldom made room for others.'
          : ` ${formatCount(more)} more are not listed.`)}
    </Text>
  );
}

const REASONS: Readonly<Record<ExtensionMissing['reason'], string>> = {
  not_loaded: 'PostgreSQL can count for all instances, and svc’s own statements too',
  not_installed: 'The server counts already: this database only lacks the extension',
  unreadable: 'The extension is there, but cannot be read',
};

function HowToEnable({ missing: { reason, message } }: { missing: ExtensionMissing }) {
  return (
    <Alert color="blue" title={REASONS[reason]}>
      {reason === 'unreadable' ? (
        <Stack gap="xs">
          <Code block>{message}</Code>
          <Text size="sm">
            The role <Code>svc_owner</Code> needs <Code>USAGE</Code> on the schema of the extension and{' '}
            <Code>SELECT</Code> on its views. One of an older server is brought up to date with{' '}
            <Code>alter extension pg_stat_statements update</Code>.
          </Text>
        </Stack>
      ) : (
        <Stack gap="xs">
          <Text size="sm">
            svc does not create <Code>pg_stat_statements</Code> by itself. To have it:
          </Text>
          <List size="sm" type="ordered" spacing={4}>
            {reason === 'not_loaded' && (
              <List.Item>
                add it to <Code>shared_preload_libraries</Code> in postgresql.conf (with a hosted PostgreSQL:
                among its parameters), and start PostgreSQL again
              </List.Item>
            )}
            <List.Item>
              in this database, as a superuser (or the administrator that your host gives you):{' '}
              <Code>create extension pg_stat_statements</Code>
            </List.Item>
          </List>
        </Stack>
      )}
    </Alert>
  );
}
