// Forms that produce edits of svc.yaml. The edits are reviewed before they are applied.
import {
  ActionIcon,
  Button,
  Checkbox,
  Drawer,
  Fieldset,
  Group,
  NativeSelect,
  Stack,
  Text,
  Textarea,
  TextInput,
} from '@mantine/core';
import { IconPlus, IconTrash } from '@tabler/icons-react';
import { useState, type FormEvent, type ReactNode } from 'react';
import type { ConfigEditRequest, TableInfo } from '../../../../src/dashboard-api/contract.ts';
import { ColumnFields, EMPTY_COLUMN, toField, type ColumnDraft } from './column-fields.tsx';

type FormProps = { onWant: (edits: ConfigEditRequest[]) => void; onClose: () => void };

function Form({
  act,
  canSubmit,
  onSubmit,
  onClose,
  children,
}: {
  act: string;
  canSubmit: boolean;
  onSubmit: () => void;
  onClose: () => void;
  children: ReactNode;
}) {
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    onSubmit();
  };
  return (
    <form onSubmit={submit}>
      <Stack>
        {children}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" disabled={!canSubmit}>
            {act}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

/** Returns `table.column` for each column that a foreign key can reference. */
export function foreignKeyTargets(tables: readonly TableInfo[]): string[] {
  return [
    'auth.users.id',
    ...tables.flatMap(({ schema, name, primaryKey }) =>
      primaryKey.length === 1 ? [`${schema === 'public' ? '' : `${schema}.`}${name}.${primaryKey[0]}`] : [],
    ),
  ];
}

type Start = 'closed' | 'owner' | 'readable' | 'open';

const STARTS: ReadonlyArray<readonly [start: Start, label: string]> = [
  ['owner', 'Each user owns their rows'],
  ['readable', 'Everyone reads, only the secret key writes'],
  ['closed', 'Only the secret key'],
  ['open', 'Everyone reads and writes'],
];

const OWNER: ColumnDraft = {
  ...EMPTY_COLUMN,
  name: 'owner_id',
  type: 'uuid',
  required: true,
  default: 'auth.uid()',
  references: 'auth.users.id',
};
const ALL = ['select', 'insert', 'update', 'delete'] as const;

export function NewTable({
  opened,
  tables,
  onWant,
  onClose,
}: FormProps & { opened: boolean; tables: readonly TableInfo[] }) {
  return (
    <Drawer opened={opened} onClose={onClose} position="right" size="lg" title="New table">
      {opened && <NewTableForm tables={tables} onWant={onWant} onClose={onClose} />}
    </Drawer>
  );
}

type Drafts = ReadonlyArray<{ readonly id: number; readonly draft: ColumnDraft }>;

function NewTableForm({ tables, onWant, onClose }: FormProps & { tables: readonly TableInfo[] }) {
  const [name, setName] = useState('');
  const [start, setStart] = useState<Start>('owner');
  const [columns, setColumns] = useState<Drafts>([
    { id: 0, draft: { ...EMPTY_COLUMN, name: 'id', type: 'uuid', primaryKey: true, default: 'uuid_v7()' } },
    { id: 1, draft: { ...EMPTY_COLUMN, name: 'title', required: true } },
    {
      id: 2,
      draft: { ...EMPTY_COLUMN, name: 'created_at', type: 'timestamptz', required: true, default: 'now()' },
    },
  ]);
  const isTaken = tables.some((table) => table.schema === 'public' && table.name === name.trim());
  const isNamed = name.trim() !== '' && !isTaken && columns.every(({ draft }) => draft.name.trim() !== '');

  const submit = (): void => {
    const drafts = columns.map(({ draft }) => draft);
    const hasOwner = drafts.some((draft) => draft.name === OWNER.name);
    const fields = [...drafts, ...(start === 'owner' && !hasOwner ? [OWNER] : [])].map(toField);
    onWant([{ kind: 'set', path: ['tables', name.trim()], value: { fields, rls: initialPolicies(start) } }]);
  };
  return (
    <Form act="Review" canSubmit={isNamed} onSubmit={submit} onClose={onClose}>
      <TextInput
        label="Name"
        required
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        error={isTaken ? 'There is a table of this name' : undefined}
        spellCheck={false}
        data-autofocus
      />
      <NativeSelect
        label="Access"
        description={start === 'owner' ? 'Adds the column owner_id' : undefined}
        value={start}
        onChange={(event) =>
          setStart(STARTS.find(([start]) => start === event.currentTarget.value)?.[0] ?? 'closed')
        }
        data={STARTS.map(([value, label]) => ({ value, label }))}
      />
      {columns.map(({ id, draft }, index) => (
        <Fieldset key={id} legend={draft.name === '' ? `Column ${index + 1}` : draft.name} p="sm">
          <Stack gap="xs">
            <ColumnFields
              draft={draft}
              targets={foreignKeyTargets(tables)}
              onChange={(changed) =>
                setColumns(columns.map((column) => (column.id === id ? { id, draft: changed } : column)))
              }
            />
            <Group justify="flex-end">
              <ActionIcon
                variant="subtle"
                color="gray"
                aria-label={`Remove column ${draft.name === '' ? index + 1 : draft.name}`}
                disabled={columns.length === 1}
                onClick={() => setColumns(columns.filter((column) => column.id !== id))}
              >
                <IconTrash size={16} />
              </ActionIcon>
            </Group>
          </Stack>
        </Fieldset>
      ))}
      <Button
        variant="default"
        leftSection={<IconPlus size={16} />}
        onClick={() =>
          setColumns([...columns, { id: Math.max(...columns.map(({ id }) => id)) + 1, draft: EMPTY_COLUMN }])
        }
      >
        Add a column
      </Button>
    </Form>
  );
}

function initialPolicies(start: Start): unknown {
  switch (start) {
    case 'closed':
      return [];
    case 'open':
      return false;
    case 'readable':
      return [{ operations: ['select'], using: 'true' }];
    case 'owner':
      return [{ operations: [...ALL], using: 'owner_id = auth.uid()', with_check: 'owner_id = auth.uid()' }];
  }
}

export function NewColumn({
  opened,
  table,
  tables,
  onWant,
  onClose,
}: FormProps & { opened: boolean; table: TableInfo; tables: readonly TableInfo[] }) {
  return (
    <Drawer opened={opened} onClose={onClose} position="right" title={`New column of ${table.name}`}>
      {opened && <NewColumnForm table={table} tables={tables} onWant={onWant} onClose={onClose} />}
    </Drawer>
  );
}

function NewColumnForm({
  table,
  tables,
  onWant,
  onClose,
}: FormProps & { table: TableInfo; tables: readonly TableInfo[] }) {
  const [draft, setDraft] = useState(EMPTY_COLUMN);
  const [backfill, setBackfill] = useState('');
  const needsBackfill = draft.required && draft.default.trim() === '';
  const submit = (): void => {
    const field = {
      ...toField(draft),
      ...(needsBackfill && backfill.trim() !== '' ? { backfill: backfill.trim() } : {}),
    };
    onWant([{ kind: 'append', path: ['tables', table.name, 'fields'], value: field }]);
  };
  return (
    <Form act="Review" canSubmit={draft.name.trim() !== ''} onSubmit={submit} onClose={onClose}>
      <ColumnFields draft={draft} onChange={setDraft} targets={foreignKeyTargets(tables)} />
      {needsBackfill && (
        <TextInput
          label="Value for existing rows"
          description="SQL; used once if the table already has rows"
          placeholder="''"
          value={backfill}
          onChange={(event) => setBackfill(event.currentTarget.value)}
        />
      )}
    </Form>
  );
}

export function NewPolicy({
  opened,
  table,
  onWant,
  onClose,
}: FormProps & { opened: boolean; table: TableInfo }) {
  return (
    <Drawer opened={opened} onClose={onClose} position="right" title={`New policy on ${table.name}`}>
      {opened && <NewPolicyForm table={table} onWant={onWant} onClose={onClose} />}
    </Drawer>
  );
}

function NewPolicyForm({ table, onWant, onClose }: FormProps & { table: TableInfo }) {
  const [operations, setOperations] = useState<string[]>(['select']);
  const [type, setType] = useState('permissive');
  const [using, setUsing] = useState('');
  const [withCheck, setWithCheck] = useState('');
  const reads = operations.some((operation) => operation !== 'insert');
  const writes = operations.some((operation) => operation === 'insert' || operation === 'update');
  const needs = (reads && using.trim() === '') || (!reads && withCheck.trim() === '');
  const submit = (): void => {
    const policy = {
      operations: ALL.filter((operation) => operations.includes(operation)),
      ...(type === 'restrictive' ? { type } : {}),
      ...(reads ? { using: using.trim() } : {}),
      ...(writes && withCheck.trim() !== '' ? { with_check: withCheck.trim() } : {}),
    };
    const path = ['tables', table.name, 'rls'];
    // Without row security, `rls` is absent or `false` instead of a list.
    onWant([
      table.rowSecurity ? { kind: 'append', path, value: policy } : { kind: 'set', path, value: [policy] },
    ]);
  };
  const owner = table.columns.find(({ name, type: of }) => of === 'uuid' && /owner|user|author/.test(name));
  const fill = (condition: string): void => {
    setUsing(condition);
    setWithCheck(writes ? condition : '');
  };
  return (
    <Form act="Review" canSubmit={operations.length > 0 && !needs} onSubmit={submit} onClose={onClose}>
      {!table.rowSecurity && (
        <Text size="sm" c="dimmed">
          This is the first policy. It turns on row-level security, which then rejects everything that no
          policy allows.
        </Text>
      )}
      <Checkbox.Group label="Operations" value={operations} onChange={setOperations}>
        <Group mt={4}>
          {ALL.map((operation) => (
            <Checkbox key={operation} value={operation} label={operation} />
          ))}
        </Group>
      </Checkbox.Group>
      <NativeSelect
        label="Type"
        value={type}
        onChange={(event) => setType(event.currentTarget.value)}
        data={[
          { value: 'permissive', label: 'permissive: one permissive policy must be true' },
          { value: 'restrictive', label: 'restrictive: must be true as well' },
        ]}
      />
      <Group gap="xs">
        <Button size="compact-xs" variant="default" onClick={() => fill('true')}>
          Everyone
        </Button>
        <Button size="compact-xs" variant="default" onClick={() => fill('auth.is_authenticated()')}>
          Signed in
        </Button>
        {owner && (
          <Button size="compact-xs" variant="default" onClick={() => fill(`${owner.name} = auth.uid()`)}>
            Owner
          </Button>
        )}
      </Group>
      {reads && (
        <Textarea
          label="Using"
          description="SQL condition on rows that a statement reads or changes"
          required
          autosize
          minRows={2}
          value={using}
          onChange={(event) => setUsing(event.currentTarget.value)}
          styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
        />
      )}
      {writes && (
        <Textarea
          label="With check"
          description="SQL condition on new rows"
          required={!reads}
          autosize
          minRows={2}
          value={withCheck}
          onChange={(event) => setWithCheck(event.currentTarget.value)}
          styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
        />
      )}
    </Form>
  );
}
