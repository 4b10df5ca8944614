import { Badge, Progress, Table, Text, UnstyledButton } from '@mantine/core';
import { useState } from 'react';
import type { StatementFigures } from '../../../../src/dashboard-api/contract.ts';
import { formatCount, formatDuration } from '../../parts/format.tsx';
import { Empty } from '../../parts/states.tsx';
import classes from './statements.module.css';

export const ORDERS = [
  { by: 'totalMs', name: 'Total' },
  { by: 'meanMs', name: 'Mean' },
  { by: 'calls', name: 'Calls' },
] as const;

type Order = (typeof ORDERS)[number]['by'];

export function isOrder(text: string | undefined): text is Order {
  return ORDERS.some(({ by }) => by === text);
}

type StatementTableProps = {
  statements: readonly StatementFigures[];
  order: Order;
  /** Search text for statements and roles. */
  text: string;
};

export function StatementTable({ statements, order, text }: StatementTableProps) {
  const wanted = text.trim().toLowerCase();
  const shown = statements
    .filter(({ sql, role }) => `${role} ${sql ?? ''}`.toLowerCase().includes(wanted))
    .sort((a, b) => b[order] - a[order]);
  if (shown.length === 0) return <Empty title={`No statement contains “${text}”`} />;
  return (
    <Table.ScrollContainer minWidth={720} scrollAreaProps={{ viewportProps: { tabIndex: 0 } }}>
      <Table verticalSpacing="xs" aria-label="Statements">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Statement</Table.Th>
            <Table.Th>Role</Table.Th>
            <Table.Th className={classes['figure']}>Calls</Table.Th>
            <Table.Th className={classes['figure']}>Mean</Table.Th>
            <Table.Th className={classes['figure']}>Share</Table.Th>
            <Table.Th className={classes['figure']}>Rows</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {shown.map((statement, at) => (
            <StatementRow key={statement.id === '' ? at : statement.id} statement={statement} />
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function StatementRow({ statement }: { statement: StatementFigures }) {
  const { role, sql, calls, meanMs, totalMs, share, rows } = statement;
  return (
    <Table.Tr>
      <Table.Td className={classes['text']}>
        <StatementText sql={sql} />
      </Table.Td>
      <Table.Td>
        <Badge variant="default" tt="none">
          {role}
        </Badge>
      </Table.Td>
      <Table.Td className={classes['figure']}>{formatCount(calls)}</Table.Td>
      <Table.Td className={classes['figure']}>{formatDuration(meanMs)}</Table.Td>
      <Table.Td className={classes['figure']} title={`${formatDuration(totalMs)} together`}>
        {formatShare(share)}
        <Progress value={share * 100} size={4} mt={4} aria-hidden />
      </Table.Td>
      <Table.Td className={classes['figure']}>{formatCount(rows)}</Table.Td>
    </Table.Tr>
  );
}

/** Shows two lines, or the whole text after a click. */
function StatementText({ sql }: { sql: string | null }) {
  const [isOpen, setOpen] = useState(false);
  if (sql === null) {
    return (
      <Text size="sm" c="dimmed">
        svc_owner must not read the text of this role: grant pg_read_all_stats to svc_owner
      </Text>
    );
  }
  return (
    <UnstyledButton
      className={classes['sql']}
      data-open={isOpen || undefined}
      aria-expanded={isOpen}
      onClick={() => setOpen(!isOpen)}
    >
      {isOpen ? sql : sql.replaceAll(/\s+/g, ' ')}
    </UnstyledButton>
  );
}

function formatShare(share: number): string {
  const percent = share * 100;
  if (percent > 0 && percent < 0.1) return '< 0.1 %';
  return `${percent.toFixed(1)} %`;
}
