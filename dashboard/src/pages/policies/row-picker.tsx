// Selects a row by its key, or from the first rows of the table.
import { Button, Group, Select, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState, type FormEvent } from 'react';
import type { TableInfo } from '../../../../src/dashboard-api/contract.ts';
import { toText } from '../../parts/values.ts';
import { readWindow, type Row } from '../tables/rows.ts';
import { parseKey, renderKey, type RowKey } from './row-key.ts';

type RowPickerProps = {
  table: TableInfo;
  chosen: RowKey | undefined;
  onChoose: (key: RowKey | undefined) => void;
};

export function RowPicker({ table, chosen, onChoose }: RowPickerProps) {
  const rows = useQuery({
    queryKey: ['rows', table.schema, table.name, 'service', '', '', 'window', 0],
    queryFn: ({ signal }) =>
      readWindow({ table, caller: 'service', filters: [], sort: undefined }, 0, signal),
  });
  const options = (rows.data ?? []).map((row) => {
    const key = rowKey(table, row);
    return { value: renderKey(key), label: rowLabel(table, row, key) };
  });
  const value = chosen && renderKey(chosen);
  return (
    <>
      <Select
        label="Row"
        size="xs"
        w={320}
        maw="100%"
        searchable
        clearable
        placeholder={rows.data?.length === 0 ? 'The table has no rows' : 'Choose from the first rows'}
        value={value !== undefined && options.some((option) => option.value === value) ? value : null}
        onChange={(picked) => onChoose(picked === null ? undefined : parseKey(table, picked))}
        data={options}
        nothingFoundMessage="Not among the first rows: enter its key"
      />
      <KeyForm key={value} table={table} chosen={chosen} onChoose={onChoose} />
    </>
  );
}

function KeyForm({ table, chosen, onChoose }: RowPickerProps) {
  const [typed, setTyped] = useState<RowKey>(chosen ?? {});
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    onChoose(Object.fromEntries(table.primaryKey.map((column) => [column, typed[column] ?? ''])));
  };
  const isComplete = table.primaryKey.every((column) => (typed[column] ?? '') !== '');
  return (
    <form onSubmit={submit}>
      <Group gap="xs" align="flex-end">
        {table.primaryKey.map((column) => (
          <TextInput
            key={column}
            label={column}
            size="xs"
            w={300}
            maw="100%"
            spellCheck={false}
            value={typed[column] ?? ''}
            onChange={(event) => setTyped({ ...typed, [column]: event.currentTarget.value })}
          />
        ))}
        <Button size="xs" type="submit" variant="default" disabled={!isComplete}>
          Explain
        </Button>
      </Group>
    </form>
  );
}

function rowKey(table: TableInfo, row: Row): RowKey {
  return Object.fromEntries(table.primaryKey.map((column) => [column, toText(row[column]) ?? '']));
}

function rowLabel(table: TableInfo, row: Row, key: RowKey): string {
  const labelColumn = table.columns.find(
    ({ name, category }) => category === 'S' && !table.primaryKey.includes(name) && row[name] !== null,
  );
  const id = Object.values(key).join(', ');
  return labelColumn ? `${toText(row[labelColumn.name])?.slice(0, 60)} · ${id.slice(0, 13)}` : id;
}
