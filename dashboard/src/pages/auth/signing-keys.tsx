import { Badge, Code, Stack, Table, Text } from '@mantine/core';
import type { AuthSettings } from '../../../../src/dashboard-api/contract.ts';
import { Ago } from '../../parts/format.tsx';
import { Empty } from '../../parts/states.tsx';

export function SigningKeys({ keys }: { keys: AuthSettings['signingKeys'] }) {
  if (keys.length === 0) return <Empty title="No signing keys" />;
  return (
    <Stack>
      <Text size="sm">
        The active key signs access tokens. Tokens of earlier keys are accepted until they expire.{' '}
        <Code>svc keys rotate</Code> creates the next key. All sessions stay valid.
      </Text>
      <Table verticalSpacing="xs">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Key</Table.Th>
            <Table.Th>State</Table.Th>
            <Table.Th visibleFrom="xs">Algorithm</Table.Th>
            <Table.Th visibleFrom="xs">Made</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {keys.map((key) => (
            <Table.Tr key={key.kid}>
              <Table.Td w="100%" maw={0}>
                <Text size="sm" className="mono truncate" title={key.kid}>
                  {key.kid}
                </Text>
              </Table.Td>
              <Table.Td>
                <Badge variant="light" color={key.state === 'in_use' ? 'teal' : 'gray'}>
                  {key.state.replaceAll('_', ' ')}
                </Badge>
              </Table.Td>
              <Table.Td visibleFrom="xs">{key.alg}</Table.Td>
              <Table.Td visibleFrom="xs" className="truncate">
                <Ago time={key.createdAt} />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Stack>
  );
}
