import { Badge, Code, Group, Table, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { CodeFunctionInfo, CodeFunctionList } from '../../../../src/dashboard-api/contract.ts';
import { PageLink } from '../../parts/page-link.tsx';
import { Empty, Loaded } from '../../parts/states.tsx';
import { functionsQuery } from './query.ts';

export function FunctionList() {
  const functions = useQuery(functionsQuery);
  return (
    <Loaded query={functions}>
      {(list) =>
        list.functions.length === 0 ? (
          <Empty title="No code functions yet">
            Declare one under <Code>functions:</Code> in svc.yaml, or create one with “New function”.
          </Empty>
        ) : (
          <>
            <Workers workers={list.workers} />
            <Table verticalSpacing="xs" highlightOnHover>
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>Name</Table.Th>
                  <Table.Th visibleFrom="sm">File</Table.Th>
                  <Table.Th visibleFrom="sm">Callers</Table.Th>
                  <Table.Th visibleFrom="md">Timeout</Table.Th>
                  <Table.Th>State</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {list.functions.map((fn) => (
                  <Table.Tr key={fn.name}>
                    <Table.Td>
                      <PageLink search={{ name: fn.name }}>{fn.name}</PageLink>
                    </Table.Td>
                    <Table.Td visibleFrom="sm">
                      <Text size="sm" className="mono">
                        {fn.file}
                      </Text>
                    </Table.Td>
                    <Table.Td visibleFrom="sm">{fn.authRequired ? 'signed in' : 'everyone'}</Table.Td>
                    <Table.Td visibleFrom="md">{fn.timeoutMs / 1000} s</Table.Td>
                    <Table.Td>
                      <FunctionState info={fn} />
                    </Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </>
        )
      }
    </Loaded>
  );
}

export function FunctionState({ info }: { info: CodeFunctionInfo }) {
  return info.error === null ? (
    <Badge variant="light" color="teal">
      loaded
    </Badge>
  ) : (
    <Badge variant="light" color="red">
      does not load
    </Badge>
  );
}

function Workers({ workers }: { workers: CodeFunctionList['workers'] }) {
  return (
    <Group gap="xs">
      <Text size="sm" c="dimmed">
        {workers.length === 1 ? '1 worker' : `${workers.length} workers`}
      </Text>
      {workers.map((worker, place) => (
        <Badge
          key={worker.pid ?? `starting ${place}`}
          variant="default"
          tt="none"
          fw={400}
          title={worker.pid === null ? undefined : `Process ${worker.pid}`}
        >
          {worker.state}
          {worker.inFlight > 0 && ` · ${worker.inFlight} in flight`}
        </Badge>
      ))}
    </Group>
  );
}
