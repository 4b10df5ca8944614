import { Anchor, Button, Group, Select, Stack, Text } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import type { ConfigEditRequest, TableInfo, TableList } from '../../../src/dashboard-api/contract.ts';
import { get } from '../api.ts';
import { CallerPicker, isCallerName } from '../parts/caller-picker.tsx';
import { Page as Frame } from '../parts/page.tsx';
import { PlanReview } from '../parts/plan-review.tsx';
import { usePageSearch } from '../parts/search-params.ts';
import { Empty, Loaded } from '../parts/states.tsx';
import { useCanWrite } from '../session.ts';
import { Explanation } from './policies/explanation.tsx';
import { PoliciesOverview } from './policies/policies-overview.tsx';
import { PolicyList } from './policies/policy-list.tsx';
import { parseKey, renderKey, type RowKey } from './policies/row-key.ts';
import { RowPicker } from './policies/row-picker.tsx';
import { NewPolicy } from './tables/forms.tsx';

export function Page() {
  const tables = useQuery({
    queryKey: ['tables'],
    queryFn: ({ signal }) => get<TableList>('/tables', signal),
  });
  return (
    <Frame title="Policies" description="Find out which policies allow or hide a row for a caller.">
      <Loaded query={tables}>
        {({ tables: all }) => <Policies tables={all.filter(({ kind }) => !kind.endsWith('view'))} />}
      </Loaded>
    </Frame>
  );
}

function Policies({ tables }: { tables: readonly TableInfo[] }) {
  const [search, setSearch] = usePageSearch();
  const chosen = tables.find(
    ({ schema, name }) => schema === (search['schema'] ?? 'public') && name === search['table'],
  );
  if (tables.length === 0) return <Empty title="No tables yet" />;
  return (
    <Stack>
      <Group gap="xs">
        <Select
          aria-label="Table"
          size="xs"
          w={240}
          searchable
          placeholder="Choose a table"
          clearable
          value={chosen ? tableId(chosen) : null}
          onChange={(id) => {
            const table = tables.find((table) => tableId(table) === id);
            setSearch({ schema: table?.schema, table: table?.name, key: undefined });
          }}
          data={tables.map((table) => ({ value: tableId(table), label: tableId(table) }))}
        />
        {chosen && (
          <Anchor
            size="sm"
            renderRoot={(props) => (
              <Link {...props} to="/tables" search={{ schema: chosen.schema, table: chosen.name }} />
            )}
          >
            Rows
          </Anchor>
        )}
      </Group>
      {chosen ? <TablePolicies key={tableId(chosen)} table={chosen} /> : <PoliciesOverview tables={tables} />}
    </Stack>
  );
}

function tableId({ schema, name }: TableInfo): string {
  return schema === 'public' ? name : `${schema}.${name}`;
}

function TablePolicies({ table }: { table: TableInfo }) {
  const [search, setSearch] = usePageSearch();
  const canWrite = useCanWrite();
  const [isMaking, setMaking] = useState(false);
  const [edits, setEdits] = useState<ConfigEditRequest[]>();
  const caller = isCallerName(search['caller']) ? search['caller'] : 'anon';
  const key = parseKey(table, search['key']);
  const choose = (chosen: RowKey | undefined): void =>
    setSearch({ key: chosen === undefined ? undefined : renderKey(chosen) });
  return (
    <Stack gap="lg">
      {table.primaryKey.length === 0 ? (
        <Text size="sm" c="dimmed">
          This table has no primary key, so no row can be chosen. Only the policies are shown.
        </Text>
      ) : (
        <>
          <Group gap="sm" align="flex-end">
            <div>
              <Text size="xs" fw={500} mb={2}>
                Caller
              </Text>
              <CallerPicker value={caller} onChange={(next) => setSearch({ caller: next })} />
            </div>
            <RowPicker table={table} chosen={key} onChoose={choose} />
          </Group>
          {key ? (
            <Explanation table={table} caller={caller} rowKey={key} />
          ) : (
            <Empty title="Choose a row">
              Each policy then shows whether the caller may see, change and delete the row.
            </Empty>
          )}
        </>
      )}
      <PolicyList
        table={table}
        action={
          canWrite &&
          table.managed && (
            <Button
              size="xs"
              variant="default"
              leftSection={<IconPlus size={14} />}
              onClick={() => setMaking(true)}
            >
              New policy
            </Button>
          )
        }
      />
      <NewPolicy
        opened={isMaking}
        table={table}
        onClose={() => setMaking(false)}
        onWant={(wanted) => {
          setMaking(false);
          setEdits(wanted);
        }}
      />
      <PlanReview
        change={edits && { edits }}
        title={`New policy on ${table.name}`}
        onClose={() => setEdits(undefined)}
      />
    </Stack>
  );
}
