import { Badge, Code, Group, SegmentedControl, Stack, Table, Text } from '@mantine/core';
import { useState } from 'react';
import { Copy } from '../../parts/copy.tsx';
import { formatCount, formatDuration } from '../../parts/format.tsx';
import { toText } from '../../parts/values.ts';

/** `text`: the raw response, which keeps all digits. */
export type Result = { readonly status: number; readonly text: string; readonly milliseconds: number };

type Rows = ReadonlyArray<Readonly<Record<string, unknown>>>;

const MAX_ROWS = 200;

export function FunctionResult({ result }: { result: Result }) {
  const value = parse(result.text);
  const rows = toRows(value);
  const [view, setView] = useState('table');
  const isTable = rows !== undefined && view === 'table';
  return (
    <Stack gap="xs" role="region" aria-label="Result">
      <Group gap="xs">
        <Badge color="teal" variant="light">
          {result.status}
        </Badge>
        <Text size="sm" c="dimmed">
          {formatDuration(result.milliseconds)}
          {rows && `, ${formatCount(rows.length)} ${rows.length === 1 ? 'row' : 'rows'}`}
        </Text>
        {rows && (
          <SegmentedControl
            size="xs"
            value={view}
            onChange={setView}
            aria-label="Shown as"
            data={[
              { value: 'table', label: 'Table' },
              { value: 'json', label: 'JSON' },
            ]}
          />
        )}
        <Copy value={result.text} label="the result" />
      </Group>
      {isTable ? (
        <RowsTable rows={rows} />
      ) : result.text === '' ? (
        <Text size="sm">It returned nothing.</Text>
      ) : (
        <Code block tabIndex={0} mah={480} style={{ overflow: 'auto' }}>
          {typeof value === 'object' && value !== null ? JSON.stringify(value, null, 2) : result.text}
        </Code>
      )}
    </Stack>
  );
}

function RowsTable({ rows }: { rows: Rows }) {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return (
    <>
      <Table.ScrollContainer
        minWidth={columns.length * 120}
        maxHeight={480}
        scrollAreaProps={{ viewportProps: { tabIndex: 0 } }}
      >
        <Table stickyHeader>
          <Table.Thead>
            <Table.Tr>
              {columns.map((column) => (
                <Table.Th key={column}>{column}</Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows.slice(0, MAX_ROWS).map((row, index) => (
              <Table.Tr key={`${index}`}>
                {columns.map((column) => (
                  <Table.Td key={column} className="truncate" maw={320}>
                    {toText(row[column]) ?? (
                      <Text span inherit c="dimmed" fs="italic">
                        NULL
                      </Text>
                    )}
                  </Table.Td>
                ))}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {rows.length > MAX_ROWS && (
        <Text size="xs" c="dimmed">
          The first {MAX_ROWS} of {formatCount(rows.length)}; as JSON, all of them.
        </Text>
      )}
    </>
  );
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Show other text unchanged.
    return undefined;
  }
}

function toRows(value: unknown): Rows | undefined {
  if (!Array.isArray(value) || value.length === 0) return undefined;
  const isRows = value.every(
    (row: unknown) => typeof row === 'object' && row !== null && !Array.isArray(row),
  );
  return isRows ? (value as Rows) : undefined;
}
