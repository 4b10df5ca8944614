// States of a page that loads, is empty, or has failed.
import { Alert, Button, Center, Code, List, Skeleton, Stack, Text } from '@mantine/core';
import { IconAlertTriangle } from '@tabler/icons-react';
import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { FileMistake } from '../../../src/dashboard-api/contract.ts';
import { ApiProblem } from '../api.ts';

/** Shows a query: a skeleton, an error with a retry button, or its content. */
export function Loaded<T>({
  query,
  rows = 6,
  children,
}: {
  query: UseQueryResult<T>;
  /** Number of skeleton lines: about as many as the content will have. */
  rows?: number;
  children: (value: T) => ReactNode;
}) {
  if (query.data !== undefined) return <>{children(query.data)}</>;
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  return <Waiting rows={rows} />;
}

export function Waiting({ rows = 6 }: { rows?: number }) {
  return (
    <Stack gap="xs" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, row) => (
        <Skeleton key={row} height={20} />
      ))}
    </Stack>
  );
}

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <Center p="xl">
      <Stack gap={4} align="center" maw={480}>
        <Text fw={600}>{title}</Text>
        {children !== undefined && (
          <Text c="dimmed" size="sm" ta="center" component="div">
            {children}
          </Text>
        )}
      </Stack>
    </Center>
  );
}

export function Failure({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const problem = error instanceof ApiProblem ? error : undefined;
  return (
    <Alert color="red" icon={<IconAlertTriangle size={18} />} title={errorMessage(error)} role="alert">
      <Stack gap="xs" align="flex-start">
        {typeof problem?.details === 'string' && <Text size="sm">{problem.details}</Text>}
        {typeof problem?.hint === 'string' && <Text size="sm">{problem.hint}</Text>}
        {problem && problem.mistakes.length > 0 && (
          <List size="sm">
            {problem.mistakes.map((mistake) => (
              <List.Item key={`${mistake.path} ${mistake.line} ${mistake.message}`}>
                {mistakeLocation(mistake)}
                {mistake.path !== '' && <Code>{mistake.path}</Code>} {mistake.message}
                {mistake.hint !== null && (
                  <Text size="xs" c="dimmed">
                    {mistake.hint}
                  </Text>
                )}
              </List.Item>
            ))}
          </List>
        )}
        {onRetry && (
          <Button size="xs" variant="default" onClick={onRetry}>
            Try again
          </Button>
        )}
      </Stack>
    </Alert>
  );
}

export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Returns `line 3: `, or `tables/todos.yaml:3: ` for an included file. Empty without a line. */
export function mistakeLocation({ file, line }: FileMistake): string {
  if (line === null) return '';
  return file === null ? `line ${line}: ` : `${file}:${line}: `;
}
