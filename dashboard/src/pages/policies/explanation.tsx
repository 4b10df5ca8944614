// Shows the result for one row and one caller: a verdict for each operation, and the outcome of each policy.
import { Alert, Badge, Code, Group, Paper, SimpleGrid, Stack, Text, ThemeIcon } from '@mantine/core';
import { IconCheck, IconX } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import type {
  CallerName,
  ExplainPolicies,
  ExplainPoliciesRequest,
  OperationVerdict,
  PolicyOutcome,
  PolicyVerdict,
  TableInfo,
} from '../../../../src/dashboard-api/contract.ts';
import { send } from '../../api.ts';
import { Loaded } from '../../parts/states.tsx';
import { Condition } from './policy-list.tsx';
import type { RowKey } from './row-key.ts';

export function Explanation({
  table,
  caller,
  rowKey,
}: {
  table: TableInfo;
  caller: CallerName;
  rowKey: RowKey;
}) {
  const request: ExplainPoliciesRequest = {
    schema: table.schema,
    table: table.name,
    caller,
    key: { ...rowKey },
  };
  const explained = useQuery({
    queryKey: ['policies', 'explain', request],
    queryFn: () => send<ExplainPolicies>('POST', '/policies/explain', request),
  });
  return (
    <Loaded query={explained}>
      {(answer) => (
        <Stack gap="sm">
          <Text size="sm">
            As role <Code>{answer.role}</Code>
            {typeof answer.claims['sub'] === 'string' && (
              <>
                , user <Code>{answer.claims['sub']}</Code>
              </>
            )}
          </Text>
          <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="sm">
            {answer.operations.map((verdict) => (
              <Verdict key={verdict.operation} verdict={verdict} />
            ))}
          </SimpleGrid>
          <Group align="flex-start" gap="sm" grow preventGrowOverflow={false}>
            <Json title="The row" value={answer.row} />
            {Object.keys(answer.claims).length > 0 && <Json title="The claims" value={answer.claims} />}
          </Group>
        </Stack>
      )}
    </Loaded>
  );
}

function Verdict({ verdict }: { verdict: OperationVerdict }) {
  return (
    <Paper
      withBorder
      p="sm"
      component="section"
      aria-label={`${verdict.operation}: ${verdict.allowed ? 'allowed' : 'refused'}`}
    >
      <Group gap="xs" wrap="nowrap">
        <ThemeIcon size="sm" radius="xl" color={verdict.allowed ? 'teal' : 'red'} variant="light">
          {verdict.allowed ? <IconCheck size={14} /> : <IconX size={14} />}
        </ThemeIcon>
        <Text fw={600} size="sm">
          {verdict.operation}
        </Text>
        <Text size="sm" c={verdict.allowed ? 'teal' : 'red'}>
          {verdict.allowed ? 'allowed' : 'refused'}
        </Text>
      </Group>
      <Text size="sm" mt={4}>
        {verdict.reason}
      </Text>
      {verdict.policies.map((policy) => (
        <PolicyDetails key={policy.name} policy={policy} />
      ))}
    </Paper>
  );
}

function PolicyDetails({ policy }: { policy: PolicyVerdict }) {
  return (
    <Stack gap={0} mt="xs" opacity={policy.applies ? 1 : 0.75}>
      <Group gap="xs">
        <Text size="sm" fw={500}>
          {policy.name}
        </Text>
        {!policy.permissive && (
          <Badge size="xs" variant="light" color="orange">
            restrictive
          </Badge>
        )}
        {!policy.applies && (
          <Badge size="xs" variant="default">
            not for this role
          </Badge>
        )}
      </Group>
      {policy.using && (
        <Condition word="using" sql={policy.using.sql}>
          <Outcome outcome={policy.using.outcome} />
        </Condition>
      )}
      {policy.withCheck && (
        <Condition word="with check" sql={policy.withCheck.sql}>
          <Outcome outcome={policy.withCheck.outcome} />
        </Condition>
      )}
      {[policy.using, policy.withCheck].map((side, index) =>
        side?.outcome.kind === 'error' ? (
          <Alert key={`${index}`} color="red" p="xs" mt={4}>
            <Text size="xs">{side.outcome.message}</Text>
          </Alert>
        ) : null,
      )}
    </Stack>
  );
}

function Outcome({ outcome }: { outcome: PolicyOutcome }) {
  const color = outcome.kind === 'true' ? 'teal' : outcome.kind === 'error' ? 'red' : 'gray';
  return (
    <Badge size="sm" variant="light" color={color} flex="none" mt={2}>
      {outcome.kind}
    </Badge>
  );
}

function Json({ title, value }: { title: string; value: unknown }) {
  return (
    <details>
      <summary>
        <Text span size="sm">
          {title}
        </Text>
      </summary>
      <Code block mt={4} tabIndex={0}>
        {JSON.stringify(value, null, 2)}
      </Code>
    </details>
  );
}
