import { Badge, Group, Stack, Table, Text, Title } from '@mantine/core';
import type { ReactNode } from 'react';
import { CopyBlock } from '../../parts/copy.tsx';
import { Empty } from '../../parts/states.tsx';
import type { DocColumn, DocFunction, Docs, DocTable } from './openapi.ts';
import {
  functionSnippets,
  SECTIONS,
  sectionSnippets,
  setUp,
  tableSnippets,
  type Language,
  type Project,
  type Snippet,
} from './snippets.ts';

type EntryDocsProps = {
  docs: Docs;
  /** `table.<name>`, `rpc.<name>`, `start`, or one of the other APIs. */
  shown: string;
  language: Language;
  project: Project;
  /** To name in examples. */
  names: { bucket: string; fn: string };
};

export function EntryDocs({ docs, shown, language, project, names }: EntryDocsProps) {
  const [kind, name] = [shown.slice(0, shown.indexOf('.')), shown.slice(shown.indexOf('.') + 1)];
  const section = SECTIONS.find((one) => one.name === shown);
  const table = kind === 'table' ? docs.tables.find((one) => one.name === name) : undefined;
  const fn = kind === 'rpc' ? docs.functions.find((one) => one.name === name) : undefined;
  if (table) {
    return (
      <Entry title={table.name} about={table.description} snippets={tableSnippets(table, language)}>
        <TableFacts table={table} />
      </Entry>
    );
  }
  if (fn) {
    return (
      <Entry title={fn.name} about={fn.description} snippets={functionSnippets(fn, language)}>
        <FunctionFacts fn={fn} />
      </Entry>
    );
  }
  if (section) {
    return (
      <Entry
        title={section.title}
        about={section.about}
        snippets={sectionSnippets(section.name, language, names)}
      />
    );
  }
  if (shown === 'start') {
    return (
      <Entry
        title="Set up"
        about="The publishable key may be in anybody’s browser: policies decide what its holder sees. The secret key passes every policy and stays on servers."
        snippets={[setUp(project, language)]}
      />
    );
  }
  return <Empty title={`This caller has no ${name}`}>Another caller may be allowed to use it.</Empty>;
}

function Entry({
  title,
  about,
  snippets,
  children,
}: {
  title: string;
  about: string;
  snippets: readonly Snippet[];
  children?: ReactNode;
}) {
  return (
    <Stack component="section" aria-label={title} miw={0}>
      <div>
        <Title order={3} size="h4">
          {title}
        </Title>
        {about !== '' && (
          <Text size="sm" c="dimmed" maw={720}>
            {about}
          </Text>
        )}
      </div>
      {children}
      {snippets.map((snippet) => (
        <Stack key={snippet.title} gap={4}>
          <Title order={4} size="h6">
            {snippet.title}
          </Title>
          <CopyBlock text={snippet.code} what={snippet.title} />
        </Stack>
      ))}
    </Stack>
  );
}

const VERBS = { get: 'read', post: 'insert', patch: 'update', delete: 'delete' } as const;

function TableFacts({ table }: { table: DocTable }) {
  return (
    <>
      <Group gap={6}>
        {table.operations.map((operation) => (
          <Badge key={operation} variant="light" tt="none">
            {VERBS[operation]}
          </Badge>
        ))}
      </Group>
      <Columns head="Column" columns={table.columns} />
    </>
  );
}

function FunctionFacts({ fn }: { fn: DocFunction }) {
  return (
    <>
      {fn.args.length === 0 ? (
        <Text size="sm">Takes no arguments.</Text>
      ) : (
        <Columns head="Argument" columns={fn.args} />
      )}
      <Text size="sm">
        Returns <code>{fn.returns}</code>.
      </Text>
    </>
  );
}

function Columns({ head, columns }: { head: string; columns: readonly DocColumn[] }) {
  return (
    <Table verticalSpacing={4}>
      <Table.Thead>
        <Table.Tr>
          <Table.Th>{head}</Table.Th>
          <Table.Th>Type</Table.Th>
          <Table.Th visibleFrom="sm">Notes</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {columns.map((column) => (
          <Table.Tr key={column.name}>
            <Table.Td className="mono">{column.name}</Table.Td>
            <Table.Td>
              {column.type}{' '}
              {column.required && (
                <Text span size="xs" c="dimmed">
                  required
                </Text>
              )}
            </Table.Td>
            <Table.Td visibleFrom="sm">
              {[
                column.enumLabels.length > 0 ? `One of ${column.enumLabels.join(', ')}.` : '',
                column.readOnly ? 'Made by the database.' : '',
                column.description,
              ]
                .filter((note) => note !== '')
                .join(' ')}
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
