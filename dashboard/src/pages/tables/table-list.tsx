// Lists the tables and views of the API by schema, with row count, size and access.
import { Badge, Group, NavLink, ScrollArea, Stack, Text, TextInput, Tooltip } from '@mantine/core';
import { IconSearch } from '@tabler/icons-react';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import type { TableInfo } from '../../../../src/dashboard-api/contract.ts';
import { formatBytes, formatCount } from '../../parts/format.tsx';
import { Empty } from '../../parts/states.tsx';

type TableListProps = { tables: readonly TableInfo[]; chosen: TableInfo | undefined };

export function TableList({ tables, chosen }: TableListProps) {
  const [search, setSearch] = useState('');
  const found = tables.filter(({ schema, name }) =>
    `${schema}.${name}`.toLowerCase().includes(search.trim().toLowerCase()),
  );
  const schemas = Object.entries(Object.groupBy(found, ({ schema }) => schema));
  return (
    <Stack gap="xs">
      <TextInput
        size="xs"
        type="search"
        aria-label="Search tables"
        placeholder="Search tables"
        leftSection={<IconSearch size={14} />}
        value={search}
        onChange={(event) => setSearch(event.currentTarget.value)}
        data-page-search
      />
      {found.length === 0 && <Empty title={tables.length === 0 ? 'No tables yet' : 'No matching table'} />}
      <ScrollArea.Autosize mah="calc(100dvh - 200px)" viewportProps={{ tabIndex: -1 }}>
        <nav aria-label="Tables">
          {schemas.map(([schema, ofSchema = []]) => (
            <div key={schema} role="group" aria-label={`Schema ${schema}`}>
              <Text size="xs" c="dimmed" fw={600} px="xs" pt={4}>
                {schema}
              </Text>
              {ofSchema.map((table) => (
                <TableLink key={table.name} table={table} isChosen={table === chosen} />
              ))}
            </div>
          ))}
        </nav>
      </ScrollArea.Autosize>
    </Stack>
  );
}

function TableLink({ table, isChosen }: { table: TableInfo; isChosen: boolean }) {
  return (
    <NavLink
      renderRoot={(props) => (
        <Link
          {...props}
          to="/tables"
          search={{ schema: table.schema, table: table.name }}
          aria-current={isChosen ? 'page' : undefined}
        />
      )}
      px="xs"
      py={4}
      active={isChosen}
      label={
        <Group gap={6} justify="space-between" wrap="nowrap">
          <span className="truncate">{table.name}</span>
          <Openness table={table} />
        </Group>
      }
      description={describe(table)}
    />
  );
}

function describe(table: TableInfo): string {
  if (table.kind === 'view') return 'view';
  const size = formatBytes(table.totalBytes);
  if (table.countedRows !== null)
    return `${formatCount(table.countedRows)} ${table.countedRows === 1 ? 'row' : 'rows'} · ${size}`;
  // PostgreSQL estimates rows only after the first ANALYZE.
  return table.estimatedRows < 0 ? size : `≈ ${formatCount(table.estimatedRows)} rows · ${size}`;
}

/** Shows whether row-level security protects the table. */
export function Openness({ table }: { table: TableInfo }) {
  if (table.kind === 'view' || table.kind === 'materialized-view') {
    return (
      <Badge size="xs" variant="default">
        view
      </Badge>
    );
  }
  if (!table.rowSecurity) {
    return (
      <Tooltip label="No row-level security: everyone with a key sees every row">
        <Badge size="xs" color="orange" variant="light">
          open
        </Badge>
      </Tooltip>
    );
  }
  return table.policies.length === 0 ? (
    <Tooltip label="Row-level security without a policy: only the secret key has access">
      <Badge size="xs" variant="default">
        closed
      </Badge>
    </Tooltip>
  ) : null;
}
