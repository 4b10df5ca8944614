// Shows the rows of one table: caller, filters, order, and actions on selected rows.
import { Alert, Button, Group, List, Stack, Text } from '@mantine/core';
import { IconPlus, IconRefresh, IconShieldQuestion, IconTrash } from '@tabler/icons-react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useMemo, useState } from 'react';
import type { TableInfo } from '../../../../src/dashboard-api/contract.ts';
import { CallerPicker, isCallerName } from '../../parts/caller-picker.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { formatCount } from '../../parts/format.tsx';
import { notifyDone, notifyFailure } from '../../parts/notify.ts';
import { usePageSearch } from '../../parts/search-params.ts';
import { Empty, Loaded } from '../../parts/states.tsx';
import { toText } from '../../parts/values.ts';
import { useCanWrite } from '../../session.ts';
import { renderKey } from '../policies/row-key.ts';
import { AddRow } from './add-row.tsx';
import { hasKey } from './columns.ts';
import { Filters } from './filters.tsx';
import { MAX_SHOWN, RowGrid } from './grid.tsx';
import {
  countRows,
  deleteRows,
  parseFilters,
  parseSort,
  renderFilters,
  renderSort,
  type Row,
  type RowSource,
} from './rows.ts';

const NO_ROWS: ReadonlyMap<string, Row> = new Map();

export function TableRows({ table, tables }: { table: TableInfo; tables: readonly TableInfo[] }) {
  const [search, setSearch] = usePageSearch();
  const queries = useQueryClient();
  const canWrite = useCanWrite();
  const [selection, setSelection] = useState(NO_ROWS);
  const [isAdding, setAdding] = useState(false);
  const [isDeleting, setDeleting] = useState(false);

  const caller = isCallerName(search['caller']) ? search['caller'] : 'service';
  const { where, sort } = search;
  const source = useMemo<RowSource>(
    () => ({ table, caller, filters: parseFilters(where), sort: parseSort(sort) }),
    [table, caller, where, sort],
  );
  const sourceKey = ['rows', table.schema, table.name, caller, where ?? '', sort ?? ''];
  const count = useQuery({
    queryKey: ['rows', table.schema, table.name, caller, where ?? '', 'count'],
    queryFn: ({ signal }) => countRows(source, signal),
  });
  const refresh = (): void => {
    void queries.invalidateQueries({ queryKey: ['rows', table.schema, table.name] });
  };
  const canSelect = canWrite && table.deletable && hasKey(table);
  const select = (key: string, row: Row | undefined): void => {
    setSelection((before) => {
      const after = new Map(before);
      if (row) after.set(key, row);
      else after.delete(key);
      return after;
    });
  };
  const remove = async (): Promise<void> => {
    const rows = [...selection.values()];
    const deleted = await deleteRows(source, rows);
    setSelection(NO_ROWS);
    refresh();
    if (deleted === rows.length) notifyDone(`${rowCount(deleted)} deleted`);
    else
      notifyFailure(
        new Error(
          `${deleted} of ${rowCount(rows.length)} deleted: the others no longer exist, ` +
            'or no policy allows this caller to delete them',
        ),
      );
  };
  const [onlySelected] = selection.size === 1 ? [...selection.values()] : [];

  return (
    <Stack gap="xs">
      <Group gap="xs" justify="space-between">
        <Group gap="xs">
          <CallerPicker
            value={caller}
            onChange={(chosen) => {
              setSelection(NO_ROWS);
              setSearch({ caller: chosen === 'service' ? undefined : chosen });
            }}
          />
          <Filters
            columns={table.columns}
            filters={source.filters}
            onChange={(filters) => setSearch({ where: renderFilters(filters) })}
          />
        </Group>
        <Group gap="xs">
          <Text size="xs" c="dimmed" aria-live="polite">
            {count.data && `${count.data.exact ? '' : '≈ '}${rowCount(count.data.total)}`}
            {selection.size > 0 && `, ${selection.size} selected`}
          </Text>
          {onlySelected && (
            <Button
              size="xs"
              variant="default"
              leftSection={<IconShieldQuestion size={14} />}
              renderRoot={(props) => (
                <Link
                  {...props}
                  to="/policies"
                  search={{
                    schema: table.schema,
                    table: table.name,
                    caller,
                    key: renderKey(
                      Object.fromEntries(
                        table.primaryKey.map((name) => [name, toText(onlySelected[name]) ?? '']),
                      ),
                    ),
                  }}
                />
              )}
            >
              Explain
            </Button>
          )}
          {selection.size > 0 && (
            <Button
              size="xs"
              color="red"
              variant="light"
              leftSection={<IconTrash size={14} />}
              onClick={() => setDeleting(true)}
            >
              Delete
            </Button>
          )}
          <Button size="xs" variant="default" leftSection={<IconRefresh size={14} />} onClick={refresh}>
            Refresh
          </Button>
          {canWrite && table.insertable && (
            <Button size="xs" leftSection={<IconPlus size={14} />} onClick={() => setAdding(true)}>
              Add row
            </Button>
          )}
        </Group>
      </Group>
      <Loaded query={count} rows={12}>
        {({ total }) => (
          <>
            {total > MAX_SHOWN && (
              <Alert color="yellow" p="xs">
                Only the first {formatCount(MAX_SHOWN)} rows can be shown. Use a filter or another order to
                see the others.
              </Alert>
            )}
            <RowGrid
              key={sourceKey.join('\n')}
              source={source}
              sourceKey={sourceKey}
              total={total}
              canEdit={canWrite && table.updatable && hasKey(table)}
              selection={canSelect ? selection : undefined}
              onSelect={select}
              onSort={(chosen) => setSearch({ sort: renderSort(chosen) })}
            />
            {total === 0 && <NoRows table={table} source={source} />}
            {canWrite && !hasKey(table) && total > 0 && (
              <Text size="xs" c="dimmed">
                Without a primary key, rows cannot be changed here.
              </Text>
            )}
          </>
        )}
      </Loaded>
      <AddRow source={source} opened={isAdding} onClose={() => setAdding(false)} onAdded={refresh} />
      <Confirm
        opened={isDeleting}
        onClose={() => setDeleting(false)}
        title={`Delete ${rowCount(selection.size)} of ${table.name}`}
        act={`Delete ${rowCount(selection.size)}`}
        onConfirm={remove}
      >
        <Stack gap="xs">
          <Text size="sm">This cannot be undone. These rows will be deleted:</Text>
          <List size="sm">
            {[...selection].slice(0, 5).map(([key, row]) => (
              <List.Item key={key}>{describeRow(table, row)}</List.Item>
            ))}
            {selection.size > 5 && <List.Item>and {selection.size - 5} more</List.Item>}
          </List>
          <Referring table={table} tables={tables} />
        </Stack>
      </Confirm>
    </Stack>
  );
}

function rowCount(count: number): string {
  return `${formatCount(count)} ${count === 1 ? 'row' : 'rows'}`;
}

/** Returns the key and the first text column, which usually identifies the row for people. */
function describeRow(table: TableInfo, row: Row): string {
  const key = table.primaryKey.map((name) => toText(row[name])).join(', ');
  const labelColumn = table.columns.find(
    ({ name, category }) => category === 'S' && !table.primaryKey.includes(name) && row[name] !== null,
  );
  return labelColumn ? `${toText(row[labelColumn.name])?.slice(0, 80)} (${key})` : key;
}

function Referring({ table, tables }: { table: TableInfo; tables: readonly TableInfo[] }) {
  const referring = tables.filter(({ foreignKeys }) =>
    foreignKeys.some(({ target }) => target.schema === table.schema && target.table === table.name),
  );
  if (referring.length === 0) return null;
  return (
    <Text size="sm">
      Rows of {referring.map(({ name }) => name).join(', ')} that reference these rows are deleted too, or
      prevent the deletion, depending on their foreign keys.
    </Text>
  );
}

function NoRows({ table, source }: { table: TableInfo; source: RowSource }) {
  if (source.filters.length > 0) return <Empty title="No row matches the filter" />;
  if (source.caller === 'service') return <Empty title={`${table.name} has no rows`} />;
  return (
    <Empty title="This caller sees no rows">
      There are none, or the policies hide them. The <b>service</b> sees every row.
    </Empty>
  );
}
