import { Anchor, Box, Button, Group, Tabs } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import type {
  ConfigEditRequest,
  TableInfo,
  TableList as Tables,
} from '../../../src/dashboard-api/contract.ts';
import { get } from '../api.ts';
import { Page as Frame } from '../parts/page.tsx';
import { PlanReview } from '../parts/plan-review.tsx';
import { usePageSearch } from '../parts/search-params.ts';
import { Empty, Loaded } from '../parts/states.tsx';
import { useCanWrite } from '../session.ts';
import { NewTable } from './tables/forms.tsx';
import { Openness, TableList } from './tables/table-list.tsx';
import { TableRows } from './tables/table-rows.tsx';
import { TableSchema } from './tables/table-schema.tsx';

export function Page() {
  const tables = useQuery({ queryKey: ['tables'], queryFn: ({ signal }) => get<Tables>('/tables', signal) });
  const [search] = usePageSearch();
  const canWrite = useCanWrite();
  const [isMaking, setMaking] = useState(false);
  const [edits, setEdits] = useState<ConfigEditRequest[]>();
  const list = tables.data?.tables ?? [];
  const chosen = list.find(
    ({ schema, name }) => schema === (search['schema'] ?? 'public') && name === search['table'],
  );
  return (
    <Frame
      title={
        chosen ? (
          <Group gap="xs" component="span">
            {chosen.name} <Openness table={chosen} />
          </Group>
        ) : (
          'Tables'
        )
      }
      {...(chosen
        ? {}
        : { description: 'Tables and views of the data API, with their rows as any caller sees them.' })}
      actions={
        canWrite && (
          <Button
            size="xs"
            variant="default"
            leftSection={<IconPlus size={14} />}
            onClick={() => setMaking(true)}
          >
            New table
          </Button>
        )
      }
    >
      <Loaded query={tables}>
        {() => (
          <Group align="flex-start" wrap="nowrap" gap="lg">
            <Box w={{ base: '100%', md: 220 }} flex="none" {...(chosen ? { visibleFrom: 'md' } : {})}>
              <TableList tables={list} chosen={chosen} />
            </Box>
            <Box flex={1} miw={0} {...(chosen ? {} : { visibleFrom: 'md' })}>
              {chosen && (
                <Anchor size="sm" hiddenFrom="md" renderRoot={(props) => <Link {...props} to="/tables" />}>
                  ← All tables
                </Anchor>
              )}
              {chosen ? (
                <TableView key={`${chosen.schema}.${chosen.name}`} table={chosen} tables={list} />
              ) : search['table'] === undefined ? (
                <Empty title="Choose a table">Its rows, its columns and its policies are shown here.</Empty>
              ) : (
                <Empty title={`There is no table ${search['table']}`} />
              )}
            </Box>
          </Group>
        )}
      </Loaded>
      <NewTable
        opened={isMaking}
        tables={list}
        onClose={() => setMaking(false)}
        onWant={(wanted) => {
          setMaking(false);
          setEdits(wanted);
        }}
      />
      <PlanReview change={edits && { edits }} title="New table" onClose={() => setEdits(undefined)} />
    </Frame>
  );
}

function TableView({ table, tables }: { table: TableInfo; tables: readonly TableInfo[] }) {
  const [search, setSearch] = usePageSearch();
  return (
    <Tabs
      value={search['tab'] === 'schema' ? 'schema' : 'rows'}
      onChange={(tab) => setSearch({ tab: tab === 'rows' ? undefined : (tab ?? undefined) })}
      keepMounted={false}
    >
      <Group justify="space-between" mb="sm" wrap="nowrap" gap="xs">
        <Tabs.List flex={1}>
          <Tabs.Tab value="rows">Rows</Tabs.Tab>
          <Tabs.Tab value="schema">Schema</Tabs.Tab>
        </Tabs.List>
        <Anchor
          size="sm"
          renderRoot={(props) => (
            <Link {...props} to="/policies" search={{ schema: table.schema, table: table.name }} />
          )}
        >
          Policies
        </Anchor>
      </Group>
      <Tabs.Panel value="rows">
        <TableRows table={table} tables={tables} />
      </Tabs.Panel>
      <Tabs.Panel value="schema">
        <TableSchema table={table} tables={tables} />
      </Tabs.Panel>
    </Tabs>
  );
}
