import { Anchor, Group, Table, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import type { PolicyInfo, TableInfo } from '../../../../src/dashboard-api/contract.ts';
import { Openness } from '../tables/table-list.tsx';

const OPERATIONS = ['select', 'insert', 'update', 'delete'] as const;

/** Lists all tables with the number of policies per operation. */
export function PoliciesOverview({ tables }: { tables: readonly TableInfo[] }) {
  return (
    <Table.ScrollContainer minWidth={520} scrollAreaProps={{ viewportProps: { tabIndex: 0 } }}>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Table</Table.Th>
            {OPERATIONS.map((operation) => (
              <Table.Th key={operation}>{operation}</Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {tables.map((table) => (
            <Table.Tr key={`${table.schema}.${table.name}`}>
              <Table.Td>
                <Group gap="xs" wrap="nowrap">
                  <Anchor
                    size="sm"
                    renderRoot={(props) => (
                      <Link {...props} to="/policies" search={{ schema: table.schema, table: table.name }} />
                    )}
                  >
                    {table.schema === 'public' ? '' : `${table.schema}.`}
                    {table.name}
                  </Anchor>
                  <Openness table={table} />
                </Group>
              </Table.Td>
              {OPERATIONS.map((operation) => (
                <Table.Td key={operation}>
                  <Count table={table} policies={policiesFor(table, operation)} />
                </Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

export function policiesFor(table: TableInfo, operation: PolicyInfo['operation']): PolicyInfo[] {
  return table.policies.filter((policy) => policy.operation === operation || policy.operation === 'all');
}

function Count({ table, policies }: { table: TableInfo; policies: readonly PolicyInfo[] }) {
  if (!table.rowSecurity) return <Text size="sm">everybody</Text>;
  const isOpen = policies.some(({ permissive }) => permissive);
  return (
    <Text size="sm" {...(isOpen ? {} : { c: 'dimmed' })}>
      {isOpen ? `${policies.length} ${policies.length === 1 ? 'policy' : 'policies'}` : 'nobody'}
    </Text>
  );
}
