import {
  Badge,
  Button,
  Code,
  Group,
  Modal,
  NativeSelect,
  Stack,
  Table,
  Text,
  TextInput,
  VisuallyHidden,
} from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useState, type FormEvent } from 'react';
import type { AuthSettings } from '../../../../src/dashboard-api/contract.ts';
import { OAUTH_PROVIDERS } from '../../../../src/config/schema/names.ts';
import { Copy } from '../../parts/copy.tsx';
import type { ProposedChange } from '../../parts/plan-review.tsx';
import { Empty } from '../../parts/states.tsx';
import { useCanWrite } from '../../session.ts';

type ProvidersProps = { providers: AuthSettings['oauth']; onReview: (change: ProposedChange) => void };

export function Providers({ providers, onReview }: ProvidersProps) {
  const canWrite = useCanWrite();
  const [isAdding, setAdding] = useState(false);
  return (
    <Stack>
      {canWrite && (
        <Group>
          <Button
            size="xs"
            variant="default"
            leftSection={<IconPlus size={16} />}
            onClick={() => setAdding(true)}
          >
            Add provider
          </Button>
        </Group>
      )}
      {providers.length === 0 ? (
        <Empty title="No providers">
          Google, GitHub and others are declared under <Code>auth.oauth</Code> in svc.yaml.
        </Empty>
      ) : (
        <ProviderTable
          providers={providers}
          onRemove={
            canWrite
              ? (name) => onReview({ edits: [{ kind: 'delete', path: ['auth', 'oauth', name] }] })
              : undefined
          }
        />
      )}
      <Modal opened={isAdding} onClose={() => setAdding(false)} title="Add a provider">
        <NewProvider
          usedNames={providers.map(({ name }) => name)}
          onReview={(change) => {
            setAdding(false);
            onReview(change);
          }}
        />
      </Modal>
    </Stack>
  );
}

function ProviderTable({
  providers,
  onRemove,
}: {
  providers: AuthSettings['oauth'];
  onRemove: ((name: string) => void) | undefined;
}) {
  return (
    <Table verticalSpacing="sm">
      <Table.Thead>
        <Table.Tr>
          <Table.Th>Provider</Table.Th>
          <Table.Th>Callback URL</Table.Th>
          {onRemove && (
            <Table.Th>
              <VisuallyHidden>Actions</VisuallyHidden>
            </Table.Th>
          )}
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {providers.map((provider) => (
          <Table.Tr key={provider.name}>
            <Table.Td>
              {provider.name}{' '}
              {!provider.enabled && (
                <Badge color="gray" variant="light">
                  off
                </Badge>
              )}
              <Text size="xs" c="dimmed" className="truncate" maw={{ base: 120, sm: 280 }}>
                {provider.clientId}
              </Text>
            </Table.Td>
            <Table.Td w="100%" maw={0}>
              <Group gap={2} wrap="nowrap">
                <Text size="sm" className="mono truncate" title={provider.callbackUrl}>
                  {provider.callbackUrl}
                </Text>
                <Copy value={provider.callbackUrl} label={`callback URL of ${provider.name}`} />
              </Group>
            </Table.Td>
            {onRemove && (
              <Table.Td>
                <Button
                  size="compact-xs"
                  variant="light"
                  color="red"
                  aria-label={`Remove ${provider.name}`}
                  onClick={() => onRemove(provider.name)}
                >
                  Remove
                </Button>
              </Table.Td>
            )}
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

/** Does not ask for the client secret, which belongs in the environment: svc.yaml refers to the variable. */
function NewProvider({
  usedNames,
  onReview,
}: {
  usedNames: readonly string[];
  onReview: (change: ProposedChange) => void;
}) {
  const names = [...OAUTH_PROVIDERS].filter((name) => !usedNames.includes(name));
  const [name, setName] = useState(names.includes('google') ? 'google' : (names[0] ?? ''));
  const [clientId, setClientId] = useState('');
  const variable = `SVC_ENV_${name.toUpperCase()}_SECRET`;
  const callback = `${window.location.origin}/auth/v1/callback/${name}`;
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    onReview({
      edits: [
        {
          kind: 'set',
          path: ['auth', 'oauth', name],
          value: { client_id: clientId.trim(), client_secret: `\${${variable}}`, redirect_url: callback },
        },
      ],
    });
  };
  return (
    <form onSubmit={submit}>
      <Stack>
        <NativeSelect
          label="Provider"
          data={names}
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        <TextInput
          label="Client id"
          description="As issued by the provider"
          required
          data-autofocus
          value={clientId}
          onChange={(event) => setClientId(event.currentTarget.value)}
        />
        <Text size="sm">
          Put the client secret into <Code>.env</Code> as <Code>{variable}</Code> first: svc.yaml only names
          it.
        </Text>
        <Group gap={2} wrap="nowrap">
          <Text size="sm" className="truncate">
            Callback URL: <Code>{callback}</Code>
          </Text>
          <Copy value={callback} label="callback URL" />
        </Group>
        <Group justify="flex-end">
          <Button type="submit" disabled={clientId.trim() === ''}>
            Review change
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
