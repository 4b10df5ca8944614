// A new row: every column a field, what happens when it is left empty said in it.
import { Button, Drawer, Group, Stack, Text } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useState, type FormEvent } from 'react';
import type { ColumnInfo } from '../../../../src/dashboard-api/contract.ts';
import { notifyDone } from '../../parts/notify.ts';
import { Failure, messageOf } from '../../parts/states.tsx';
import { ValueField } from '../../parts/value-field.tsx';
import { toJson } from '../../parts/values.ts';
import { isWritable } from './columns.ts';
import { shortType } from './grid.tsx';
import { addRow, type RowSource } from './rows.ts';

type AddRowProps = { source: RowSource; opened: boolean; onClose: () => void; onAdded: () => void };

export function AddRow({ source, opened, onClose, onAdded }: AddRowProps) {
  return (
    <Drawer opened={opened} onClose={onClose} position="right" title={`New row in ${source.table.name}`}>
      {opened && <AddRowForm source={source} onClose={onClose} onAdded={onAdded} />}
    </Drawer>
  );
}

function AddRowForm({ source, onClose, onAdded }: Omit<AddRowProps, 'opened'>) {
  const [texts, setTexts] = useState<Readonly<Record<string, string>>>({});
  const [mistakes, setMistakes] = useState<Readonly<Record<string, string>>>({});
  const columns = source.table.columns.filter(isWritable);
  const add = useMutation({
    mutationFn: (members: ReadonlyArray<readonly [string, string]>) => addRow(source, members),
    onSuccess: () => {
      notifyDone(`A row was added to ${source.table.name}`);
      onAdded();
      onClose();
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const members: Array<readonly [string, string]> = [];
    const found: Record<string, string> = {};
    for (const column of columns) {
      const text = texts[column.name] ?? '';
      try {
        if (text !== '') members.push([column.name, toJson(text, column)]);
        else if (isRequired(column)) found[column.name] = 'A value is required: there is no default';
      } catch (error) {
        found[column.name] = messageOf(error);
      }
    }
    setMistakes(found);
    if (Object.keys(found).length === 0) add.mutate(members);
  };
  return (
    <form onSubmit={submit} noValidate>
      <Stack>
        <Text size="sm" c="dimmed">
          Written as {source.caller.startsWith('user:') ? 'the chosen user' : source.caller}. Fields left
          empty get what stands in them.
        </Text>
        {columns.map((column) => (
          <ValueField
            key={column.name}
            of={column}
            label={column.name}
            description={shortType(column.type) + (column.comment === null ? '' : `: ${column.comment}`)}
            placeholder={leftEmpty(column)}
            required={isRequired(column)}
            value={texts[column.name] ?? ''}
            onChange={(text) => setTexts((before) => ({ ...before, [column.name]: text }))}
            error={mistakes[column.name]}
          />
        ))}
        {add.isError && <Failure error={add.error} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={add.isPending}>
            Add row
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

function isRequired(column: ColumnInfo): boolean {
  return column.notNull && column.default === null && column.generated === null;
}

function leftEmpty(column: ColumnInfo): string {
  if (column.default !== null) return column.default;
  if (column.generated !== null) return 'made by the database';
  return column.notNull ? '' : 'NULL';
}
