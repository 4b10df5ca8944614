import { Badge, Code, Group, Paper, Stack, Text, Title } from '@mantine/core';
import type { ReactNode } from 'react';
import type { PolicyInfo, TableInfo } from '../../../../src/dashboard-api/contract.ts';
import { Empty } from '../../parts/states.tsx';

/** Lists the policies of a table as stored in the database. */
export function PolicyList({ table, action }: { table: TableInfo; action: ReactNode }) {
  return (
    <section aria-label="Policies of the table">
      <Group justify="space-between" mb="xs">
        <Title order={3} size="h5">
          Policies of {table.name}
        </Title>
        {action}
      </Group>
      {table.policies.length === 0 ? (
        <Empty title={table.rowSecurity ? 'Closed' : 'Open'}>
          {table.rowSecurity
            ? 'Row-level security without a policy: only the secret key has access.'
            : 'No row-level security: everyone with a key can read and change every row.'}
        </Empty>
      ) : (
        <Stack gap="xs">
          {table.policies.map((policy) => (
            <PolicyItem key={policy.name} policy={policy} />
          ))}
        </Stack>
      )}
    </section>
  );
}

function PolicyItem({ policy }: { policy: PolicyInfo }) {
  return (
    <Paper withBorder p="sm">
      <Group gap="xs" mb={4}>
        <Text size="sm" fw={600}>
          {policy.name}
        </Text>
        <Badge size="sm" variant="light">
          {policy.operation === 'all' ? 'every operation' : policy.operation}
        </Badge>
        {!policy.permissive && (
          <Badge size="sm" variant="light" color="orange">
            restrictive
          </Badge>
        )}
        <Text size="xs" c="dimmed">
          for {policy.roles.join(', ')}
        </Text>
      </Group>
      {policy.using !== null && <Condition word="using" sql={policy.using} />}
      {policy.withCheck !== null && <Condition word="with check" sql={policy.withCheck} />}
    </Paper>
  );
}

export function Condition({ word, sql, children }: { word: string; sql: string; children?: ReactNode }) {
  return (
    <Group gap="xs" align="flex-start" wrap="nowrap" mt={4}>
      <Text size="xs" c="dimmed" w={72} flex="none" pt={3}>
        {word}
      </Text>
      <Code flex={1} miw={0} style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
        {sql}
      </Code>
      {children}
    </Group>
  );
}
