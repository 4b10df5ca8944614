// Filters on columns. Each is a condition in the syntax of the REST API, so that it can be copied into a URL.
import {
  Button,
  CloseButton,
  Code,
  Group,
  NativeSelect,
  Pill,
  Popover,
  Stack,
  Text,
  TextInput,
} from '@mantine/core';
import { IconFilterPlus } from '@tabler/icons-react';
import { useState, type FormEvent } from 'react';
import type { ColumnInfo } from '../../../../src/dashboard-api/contract.ts';
import type { Filter } from './rows.ts';

const OPERATORS: ReadonlyArray<readonly [operator: string, meaning: string]> = [
  ['eq', 'equals'],
  ['neq', 'differs from'],
  ['gt', 'greater than'],
  ['gte', 'at least'],
  ['lt', 'less than'],
  ['lte', 'at most'],
  ['ilike', 'matches, * is a wildcard'],
  ['like', 'matches, case-sensitive'],
  ['not.ilike', 'does not match'],
  ['in', 'is one of, comma-separated'],
  ['is', 'is null, true or false'],
  ['not.is', 'is not null, true or false'],
  ['cs', 'contains'],
  ['cd', 'is contained in'],
  ['plfts', 'has the words'],
];

/** Builds a condition such as `eq.5`. */
export function toCondition(operator: string, value: string): string {
  if (operator === 'in' && !value.startsWith('(')) return `in.(${value})`;
  if (operator.endsWith('is') && value === '') return `${operator}.null`;
  return `${operator}.${value}`;
}

type FiltersProps = {
  columns: readonly ColumnInfo[];
  filters: readonly Filter[];
  onChange: (filters: readonly Filter[]) => void;
};

export function Filters({ columns, filters, onChange }: FiltersProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Popover opened={isOpen} onChange={setOpen} trapFocus position="bottom-start" shadow="md" withArrow>
        <Popover.Target>
          <Button
            size="xs"
            variant="default"
            leftSection={<IconFilterPlus size={16} />}
            onClick={() => setOpen(!isOpen)}
          >
            Filter
          </Button>
        </Popover.Target>
        <Popover.Dropdown aria-label="Add a filter" maw="95vw">
          <FilterForm
            columns={columns}
            onAdd={(filter) => {
              onChange([...filters, filter]);
              setOpen(false);
            }}
          />
        </Popover.Dropdown>
      </Popover>
      {filters.map((filter, index) => (
        <Pill
          key={`${filter.column} ${filter.condition} ${index}`}
          size="md"
          component="span"
          styles={{ label: { display: 'flex', alignItems: 'center', gap: 4 } }}
        >
          <span className="mono">
            {filter.column}={filter.condition}
          </span>
          <CloseButton
            size="xs"
            aria-label={`Remove the filter on ${filter.column}`}
            onClick={() => onChange(filters.filter((_, at) => at !== index))}
          />
        </Pill>
      ))}
    </>
  );
}

function FilterForm({ columns, onAdd }: { columns: readonly ColumnInfo[]; onAdd: (filter: Filter) => void }) {
  const [column, setColumn] = useState(columns[0]?.name ?? '');
  const [operator, setOperator] = useState('eq');
  const [value, setValue] = useState('');
  const condition = toCondition(operator, value);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    onAdd({ column, condition });
  };
  return (
    <form onSubmit={submit}>
      <Stack gap="xs" w={320} maw="100%">
        <NativeSelect
          label="Column"
          size="xs"
          value={column}
          onChange={(event) => setColumn(event.currentTarget.value)}
          data={columns.map(({ name }) => name)}
          data-autofocus
        />
        <NativeSelect
          label="Operator"
          size="xs"
          value={operator}
          onChange={(event) => setOperator(event.currentTarget.value)}
          data={OPERATORS.map(([name, meaning]) => ({ value: name, label: `${name}: ${meaning}` }))}
        />
        <TextInput
          label="Value"
          size="xs"
          value={value}
          onChange={(event) => setValue(event.currentTarget.value)}
        />
        <Group justify="space-between" wrap="nowrap">
          <Text size="xs" c="dimmed" className="truncate">
            <Code>
              {column}={condition}
            </Code>
          </Text>
          <Button size="xs" type="submit">
            Add
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
