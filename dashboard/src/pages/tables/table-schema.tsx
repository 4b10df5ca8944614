import { Anchor, Badge, Button, Code, Group, Stack, Table, Text, Title } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import type { ConfigEditRequest, TableInfo } from '../../../../src/dashboard-api/contract.ts';
import { PlanReview } from '../../parts/plan-review.tsx';
import { useCanWrite } from '../../session.ts';
import { NewColumn, NewPolicy } from './forms.tsx';
import { shortType } from './grid.tsx';

type Change = { title: string; edits: ConfigEditRequest[] };

/** Shows columns, keys, indexes and policies of a table. Tables that svc.yaml manages can be extended. */
export function TableSchema({ table, tables }: { table: TableInfo; tables: readonly TableInfo[] }) {
  const canWrite = useCanWrite();
  const [form, setForm] = useState<'column' | 'policy'>();
  const [change, setChange] = useState<Change>();
  const close = (): void => setForm(undefined);
  const want = (title: string) => (edits: ConfigEditRequest[]) => {
    setForm(undefined);
    setChange({ title, edits });
  };
  const canAdd = canWrite && table.managed;
  return (
    <Stack gap="lg">
      {table.comment !== null && <Text size="sm">{table.comment}</Text>}
      <Section
        title="Columns"
        action={canAdd && <AddButton onClick={() => setForm('column')}>Add column</AddButton>}
      >
        <Columns table={table} />
      </Section>
      <Section
        title="Policies"
        action={canAdd && <AddButton onClick={() => setForm('policy')}>New policy</AddButton>}
      >
        <Policies table={table} />
      </Section>
      {table.foreignKeys.length > 0 && (
        <Section title="References">
          {table.foreignKeys.map((key) => (
            <Text key={key.name} size="sm" className="mono">
              {key.columns.join(', ')} → {key.target.schema}.{key.target.table} (
              {key.target.columns.join(', ')})
            </Text>
          ))}
        </Section>
      )}
      {table.indexes.length > 0 && (
        <Section title="Indexes">
          <Stack gap={4}>
            {table.indexes.map((index) => (
              <Code key={index.name} block tabIndex={0}>
                {index.definition}
              </Code>
            ))}
          </Stack>
        </Section>
      )}
      {!table.managed && (
        <Text size="sm" c="dimmed">
          svc.yaml serves this through <Code>expose:</Code> and does not manage it: change its structure in
          the database.
        </Text>
      )}
      <NewColumn
        opened={form === 'column'}
        table={table}
        tables={tables}
        onClose={close}
        onWant={want(`New column of ${table.name}`)}
      />
      <NewPolicy
        opened={form === 'policy'}
        table={table}
        onClose={close}
        onWant={want(`New policy on ${table.name}`)}
      />
      <PlanReview
        change={change && { edits: change.edits }}
        title={change?.title ?? ''}
        onClose={() => setChange(undefined)}
      />
    </Stack>
  );
}

function AddButton({ onClick, children }: { onClick: () => void; children: string }) {
  return (
    <Button size="xs" variant="default" leftSection={<IconPlus size={14} />} onClick={onClick}>
      {children}
    </Button>
  );
}

function Section({
  title,
  action,
  children,
}: {
  title: string;
  action?: React.ReactNode;
  children: React.ReactNode;
}) {
  return (
    <section aria-label={title}>
      <Group justify="space-between" mb="xs">
        <Title order={3} size="h5">
          {title}
        </Title>
        {action}
      </Group>
      {children}
    </section>
  );
}

function Columns({ table }: { table: TableInfo }) {
  return (
    <Table.ScrollContainer minWidth={620} scrollAreaProps={{ viewportProps: { tabIndex: 0 } }}>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Name</Table.Th>
            <Table.Th>Type</Table.Th>
            <Table.Th>Default</Table.Th>
            <Table.Th>Rules</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {table.columns.map((column) => (
            <Table.Tr key={column.name}>
              <Table.Td>
                <Text size="sm" fw={600}>
                  {column.name}
                </Text>
                {column.comment !== null && (
                  <Text size="xs" c="dimmed">
                    {column.comment}
                  </Text>
                )}
              </Table.Td>
              <Table.Td className="mono">{shortType(column.type)}</Table.Td>
              <Table.Td className="mono">{column.default ?? column.generated ?? ''}</Table.Td>
              <Table.Td>
                <Group gap={4}>
                  {columnRules(table, column.name).map((rule) => (
                    <Badge key={rule} size="sm" variant="default">
                      {rule}
                    </Badge>
                  ))}
                  {column.enumLabels !== null && (
                    <Text size="xs" c="dimmed">
                      {column.enumLabels.join(' | ')}
                    </Text>
                  )}
                </Group>
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function columnRules(table: TableInfo, name: string): string[] {
  const column = table.columns.find((entry) => entry.name === name);
  return [
    ...(table.primaryKey.includes(name) ? ['primary key'] : []),
    ...(column?.notNull === true && !table.primaryKey.includes(name) ? ['required'] : []),
    ...(table.uniqueKeys.some((key) => key.length === 1 && key[0] === name) &&
    !table.primaryKey.includes(name)
      ? ['unique']
      : []),
  ];
}

function Policies({ table }: { table: TableInfo }) {
  if (!table.rowSecurity) {
    return <Text size="sm">No row-level security: every key holder sees and changes every row.</Text>;
  }
  if (table.policies.length === 0) {
    return <Text size="sm">Closed: without a policy only the secret key has access.</Text>;
  }
  return (
    <Text size="sm">
      {table.policies.length} {table.policies.length === 1 ? 'policy' : 'policies'}:{' '}
      <Anchor
        inherit
        renderRoot={(props) => (
          <Link {...props} to="/policies" search={{ schema: table.schema, table: table.name }} />
        )}
      >
        show the policies and their effects
      </Anchor>
    </Text>
  );
}
