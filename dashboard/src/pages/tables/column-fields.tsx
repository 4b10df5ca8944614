// Form fields of a column in svc.yaml, for a new table or a new column.
import { Autocomplete, Checkbox, Group, SimpleGrid, TextInput } from '@mantine/core';

export type ColumnDraft = {
  readonly name: string;
  readonly type: string;
  readonly primaryKey: boolean;
  readonly required: boolean;
  readonly unique: boolean;
  readonly default: string;
  readonly references: string;
};

export const EMPTY_COLUMN: ColumnDraft = {
  name: '',
  type: 'text',
  primaryKey: false,
  required: false,
  unique: false,
  default: '',
  references: '',
};

const TYPES = [
  'text',
  'integer',
  'bigint',
  'bigserial',
  'boolean',
  'uuid',
  'timestamptz',
  'date',
  'numeric(10,2)',
  'double precision',
  'jsonb',
  'text[]',
];

/** Function calls that the file accepts as a default without `sql:`. */
const KNOWN_DEFAULTS = ['now()', 'current_date', 'current_time', 'uuid_v7()', 'uuid_v4()'];

/** Returns the entry under `fields:`. Omits keys that only repeat a default. */
export function toField(draft: ColumnDraft): Record<string, unknown> {
  return {
    name: draft.name.trim(),
    ...(draft.references !== '' && draft.type.trim() === '' ? {} : { type: draft.type.trim() }),
    ...(draft.primaryKey ? { primary_key: true } : {}),
    ...(draft.required && !draft.primaryKey ? { required: true } : {}),
    ...(draft.unique && !draft.primaryKey ? { unique: true } : {}),
    ...(draft.default.trim() === '' ? {} : { default: toDefault(draft.default.trim(), draft.type) }),
    ...(draft.references.trim() === '' ? {} : { foreign_key: { references: draft.references.trim() } }),
  };
}

/** Returns a literal of the type, or an SQL expression if the text looks like a call. */
function toDefault(text: string, type: string): unknown {
  if (KNOWN_DEFAULTS.includes(text)) return text;
  if (/^[a-z_.]+\(.*\)$/i.test(text)) return { sql: text };
  if (type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true';
  if (/^(integer|smallint|double precision|real)/.test(type) && Number.isFinite(Number(text)))
    return Number(text);
  return text;
}

type ColumnFieldsProps = {
  draft: ColumnDraft;
  onChange: (draft: ColumnDraft) => void;
  /** Columns that foreign keys can reference. */
  targets: readonly string[];
};

export function ColumnFields({ draft, onChange, targets }: ColumnFieldsProps) {
  const set = (changes: Partial<ColumnDraft>): void => onChange({ ...draft, ...changes });
  return (
    <>
      <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="xs" verticalSpacing="xs">
        <TextInput
          label="Name"
          required
          value={draft.name}
          onChange={(event) => set({ name: event.currentTarget.value })}
          spellCheck={false}
        />
        <Autocomplete label="Type" data={TYPES} value={draft.type} onChange={(type) => set({ type })} />
        <Autocomplete
          label="Default"
          placeholder="none"
          data={KNOWN_DEFAULTS.concat('auth.uid()')}
          value={draft.default}
          onChange={(value) => set({ default: value })}
        />
        <Autocomplete
          label="Refers to"
          placeholder="table.column"
          data={[...targets]}
          value={draft.references}
          onChange={(references) => set({ references })}
        />
      </SimpleGrid>
      <Group gap="md">
        <Checkbox
          label="Primary key"
          checked={draft.primaryKey}
          onChange={(event) => set({ primaryKey: event.currentTarget.checked })}
        />
        <Checkbox
          label="Required"
          checked={draft.required || draft.primaryKey}
          disabled={draft.primaryKey}
          onChange={(event) => set({ required: event.currentTarget.checked })}
        />
        <Checkbox
          label="Unique"
          checked={draft.unique || draft.primaryKey}
          disabled={draft.primaryKey}
          onChange={(event) => set({ unique: event.currentTarget.checked })}
        />
      </Group>
    </>
  );
}
