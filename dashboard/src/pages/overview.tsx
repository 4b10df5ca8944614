import {
  Alert,
  Anchor,
  Badge,
  Button,
  Code,
  Group,
  List,
  Paper,
  SimpleGrid,
  Stack,
  Tabs,
  Text,
  Title,
} from '@mantine/core';
import { IconEye } from '@tabler/icons-react';
import { useMutation, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Overview, Pending, SecretKey } from '../../../src/dashboard-api/contract.ts';
import { get, send } from '../api.ts';
import { Copy, CopyBlock } from '../parts/copy.tsx';
import { formatBytes, formatCount, formatDuration } from '../parts/format.tsx';
import { Page as Frame } from '../parts/page.tsx';
import { Failure, Loaded } from '../parts/states.tsx';

const REFRESH_MS = 5_000;

export function Page() {
  const overview = useQuery({
    queryKey: ['overview'],
    queryFn: ({ signal }) => get<Overview>('/overview', signal),
    refetchInterval: REFRESH_MS,
  });
  return (
    <Loaded query={overview}>
      {(seen) => (
        <Frame
          title={seen.project.name}
          description={seen.project.description ?? `Backend of ${seen.project.file}.`}
        >
          <OpenTables names={seen.openTables} />
          <PendingChanges />
          <SimpleGrid cols={{ base: 1, md: 2 }}>
            <Health overview={seen} />
            <Counts overview={seen} />
          </SimpleGrid>
          <Connect overview={seen} />
        </Frame>
      )}
    </Loaded>
  );
}

function Card({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Paper withBorder p="md" component="section" aria-label={title}>
      <Title order={3} size="h5" mb="sm">
        {title}
      </Title>
      {children}
    </Paper>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <Group justify="space-between" gap="sm" wrap="nowrap" py={4}>
      <Text size="sm" c="dimmed">
        {name}
      </Text>
      <Text size="sm" component="div" ta="right" className="truncate">
        {children}
      </Text>
    </Group>
  );
}

function Health({ overview: { health, versions, databaseBytes } }: { overview: Overview }) {
  return (
    <Card title="Health">
      <Fact name="Database">
        {health.database === 'ok' ? (
          <Group gap={6} justify="flex-end">
            <Badge color="teal" variant="light">
              ok
            </Badge>
            {health.databaseMs !== null && `answers in ${formatDuration(health.databaseMs)}`}
          </Group>
        ) : (
          <Badge color="red" variant="light">
            unreachable
          </Badge>
        )}
      </Fact>
      <Fact name="Up for">{formatDuration(health.uptimeMs)}</Fact>
      <Fact name="Memory">{formatBytes(health.memoryBytes)}</Fact>
      <Fact name="Database size">{formatBytes(databaseBytes)}</Fact>
      <Fact name="Versions">
        svc {versions.svc}, PostgreSQL {versions.postgres}, Node {versions.node}
      </Fact>
    </Card>
  );
}

function Counts({ overview: { counts } }: { overview: Overview }) {
  const rows: ReadonlyArray<readonly [name: string, count: number, to: string]> = [
    ['Tables', counts.tables, '/tables'],
    ['SQL functions', counts.sqlFunctions, '/sql-functions'],
    ['Code functions', counts.codeFunctions, '/functions'],
    ['Buckets', counts.buckets, '/storage'],
    ['Users', counts.users, '/users'],
  ];
  return (
    <Card title="Resources">
      {rows.map(([name, count, to]) => (
        <Fact key={to} name={name}>
          <Anchor
            size="sm"
            renderRoot={(props) => <Link {...props} to={to} aria-label={`${count} ${name}`} />}
          >
            {formatCount(count)}
          </Anchor>
        </Fact>
      ))}
    </Card>
  );
}

function OpenTables({ names }: { names: readonly string[] }) {
  if (names.length === 0) return null;
  return (
    <Alert color="orange" title={names.length === 1 ? 'A table is open' : `${names.length} tables are open`}>
      <Text size="sm">
        {names.map((name) => (
          <Code key={name} mr={4}>
            {name}
          </Code>
        ))}
        {names.length === 1 ? 'has' : 'have'} no <Code>rls</Code> key in svc.yaml: everyone with the
        publishable key can read and write every row. <Code>rls: []</Code> closes a table,{' '}
        <Code>rls: false</Code> keeps it open.
      </Text>
    </Alert>
  );
}

/** Shows the migration steps that the database lacks. */
function PendingChanges() {
  const pending = useQuery({
    queryKey: ['pending'],
    queryFn: ({ signal }) => get<Pending>('/pending', signal),
  });
  if (pending.isError) return <Failure error={pending.error} onRetry={() => void pending.refetch()} />;
  if (!pending.data) return null;
  switch (pending.data.kind) {
    case 'in-sync':
      return (
        <Text size="sm" c="dimmed">
          The database matches svc.yaml.
        </Text>
      );
    case 'superseded':
      return (
        <Alert color="yellow" title="The database is ahead">
          It was migrated to a newer svc.yaml than the one of this instance.
        </Alert>
      );
    case 'pending': {
      const { steps, problems } = pending.data;
      return (
        <Alert
          color={problems.length > 0 ? 'red' : 'yellow'}
          title={problems.length > 0 ? 'svc.yaml cannot be applied' : 'Not applied yet'}
        >
          <Stack gap="xs">
            {steps.length > 0 && (
              <List size="sm">
                {steps.map((step) => (
                  <List.Item key={step}>{step}</List.Item>
                ))}
              </List>
            )}
            {problems.map((problem) => (
              <Text key={`${problem.code} ${problem.at}`} size="sm">
                <Code>{problem.code}</Code> {problem.at}: {problem.message} {problem.hint}
              </Text>
            ))}
          </Stack>
        </Alert>
      );
    }
  }
}

function Connect({ overview: { url, publishableKey } }: { overview: Overview }) {
  return (
    <Card title="Connect">
      <Stack gap="xs">
        <Copyable name="Base URL" value={url} label="the base URL" />
        <Copyable name="Publishable key" value={publishableKey} label="the publishable key" />
        <SecretKeyRow />
        <Tabs defaultValue="supabase-js" mt="xs">
          <Tabs.List mb="xs">
            <Tabs.Tab value="supabase-js">supabase-js</Tabs.Tab>
            <Tabs.Tab value="curl">curl</Tabs.Tab>
          </Tabs.List>
          <Tabs.Panel value="supabase-js">
            <CopyBlock label="the supabase-js snippet" text={clientSnippet(url, publishableKey)} />
          </Tabs.Panel>
          <Tabs.Panel value="curl">
            <CopyBlock label="the curl command" text={curlSnippet(url, publishableKey)} />
          </Tabs.Panel>
        </Tabs>
      </Stack>
    </Card>
  );
}

function Copyable({ name, value, label }: { name: string; value: string; label: string }) {
  return (
    <Group gap="sm" wrap="nowrap" mih={30}>
      <Text size="sm" c="dimmed" w={112} flex="none">
        {name}
      </Text>
      <Text size="sm" className="mono truncate" miw={0}>
        {value}
      </Text>
      <Copy value={value} label={label} />
    </Group>
  );
}

/** Fetches the key on request and discards it with the page. */
function SecretKeyRow() {
  const secret = useMutation({ mutationFn: () => send<SecretKey>('POST', '/keys/secret'), gcTime: 0 });
  if (secret.data) return <Copyable name="Secret key" value={secret.data.secretKey} label="the secret key" />;
  return (
    <>
      <Group gap="sm" wrap="nowrap" mih={30}>
        <Text size="sm" c="dimmed" w={112} flex="none">
          Secret key
        </Text>
        <Button
          size="compact-sm"
          variant="default"
          leftSection={<IconEye size={14} />}
          loading={secret.isPending}
          onClick={() => secret.mutate()}
        >
          Show
        </Button>
        <Text size="xs" c="dimmed" visibleFrom="xs">
          bypasses every policy: use it on servers only
        </Text>
      </Group>
      {secret.isError && <Failure error={secret.error} />}
    </>
  );
}

function clientSnippet(url: string, key: string): string {
  return `import { createClient } from '@supabase/supabase-js';

const supabase = createClient(
  '${url}',
  '${key}',
);`;
}

function curlSnippet(url: string, key: string): string {
  return `curl '${url}/rest/v1/' \\\n  -H 'apikey: ${key}'`;
}
