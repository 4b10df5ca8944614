// Shows the cost of SQL statements, and how to enable the counters of PostgreSQL.
import { Alert, Code, List, SegmentedControl, Stack, Switch, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type {
  ExtensionMissing,
  StatementFigures,
  StatementList,
} from '../../../src/dashboard-api/contract.ts';
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
      description="The statements that take the most database time, without their values."
      actions={
        <>
          <SegmentedControl
            aria-label="Order"
            size="xs"
            value={order}
            onChange={(next) => change({ order: next === 'totalMs' ? undefined : next })}
            data={ORDERS.map(({ by, name }) => ({ value: by, label: name }))}
          />
          <Switch
            size="xs"
            label="svc itself"
            checked={search['own'] !== undefined}
            onChange={(event) => change({ own: event.currentTarget.checked ? '1' : undefined })}
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
            {listed(seen, search['own'] !== undefined).length === 0 ? (
              <Empty title="No statements yet">
                They appear after the first request that uses the database.
              </Empty>
            ) : (
              <StatementTable
                statements={listed(seen, search['own'] !== undefined)}
                order={order}
                text={text}
              />
            )}
          </Stack>
        )}
      </Loaded>
    </Frame>
  );
}

/** Roles of requests. All other roles belong to svc. */
const CALLERS: ReadonlySet<string> = new Set(['anon', 'authenticated', 'service_role']);

function listed({ statements }: StatementList, withOwn: boolean): StatementFigures[] {
  return statements.filter(({ role }) => withOwn || CALLERS.has(role));
}

function Counted({ list: { source, since, process, more } }: { list: StatementList }) {
  return (
    <Text size="sm" c="dimmed">
      {source === 'pg_stat_statements'
        ? 'Counted by PostgreSQL for this database and the roles of svc, across all instances'
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
          ? ' Some rarely used statements were evicted.'
          : ` ${formatCount(more)} more are not listed.`)}
    </Text>
  );
}

const REASONS: Readonly<Record<ExtensionMissing['reason'], string>> = {
  not_loaded: 'PostgreSQL can count for all instances, including statements of svc itself',
  not_installed: 'The server already counts: only the extension is missing in this database',
  unreadable: 'The extension exists, but cannot be read',
};

function HowToEnable({ missing: { reason, message } }: { missing: ExtensionMissing }) {
  return (
    <Alert color="blue" title={REASONS[reason]}>
      {reason === 'unreadable' ? (
        <Stack gap="xs">
          <Code block>{message}</Code>
          <Text size="sm">
            The role <Code>svc_owner</Code> needs <Code>USAGE</Code> on the schema of the extension and{' '}
            <Code>SELECT</Code> on its views. Update an extension from an older server with{' '}
            <Code>alter extension pg_stat_statements update</Code>.
          </Text>
        </Stack>
      ) : (
        <Stack gap="xs">
          <Text size="sm">
            svc does not create <Code>pg_stat_statements</Code> automatically. To enable it:
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
