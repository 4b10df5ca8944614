import {
  Alert,
  Button,
  Code,
  Group,
  Modal,
  SegmentedControl,
  Stack,
  Switch,
  Text,
  TextInput,
} from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconPlus } from '@tabler/icons-react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState, type FormEvent } from 'react';
import type { NewFunction, CreatedFunction } from '../../../../src/dashboard-api/contract.ts';
import { send } from '../../api.ts';
import { notifyDone } from '../../parts/notify.ts';
import { Failure } from '../../parts/states.tsx';
import { useCanWrite, useSession } from '../../session.ts';
import { functionsQuery } from './query.ts';

const NAME = /^[A-Za-z][\w-]*$/;

export function NewFunctionButton() {
  const [isOpen, dialog] = useDisclosure(false);
  const canWrite = useCanWrite();
  const { data: list } = useQuery(functionsQuery);
  if (!canWrite || list?.editable === false) return null;
  return (
    <>
      <Button size="xs" leftSection={<IconPlus size={16} />} onClick={dialog.open}>
        New function
      </Button>
      <Modal opened={isOpen} onClose={dialog.close} title="New function">
        <NewFunctionForm usedNames={list?.functions.map(({ name }) => name) ?? []} onDone={dialog.close} />
      </Modal>
    </>
  );
}

function NewFunctionForm({ usedNames, onDone }: { usedNames: readonly string[]; onDone: () => void }) {
  const navigate = useNavigate();
  const queries = useQueryClient();
  // Under `svc dev` the files belong to the developer.
  const onlyHere = useSession()?.project?.dev === false;
  const [name, setName] = useState('');
  const [language, setLanguage] = useState<'js' | 'ts'>('js');
  const [authRequired, setAuthRequired] = useState(true);
  const make = useMutation({
    mutationFn: (wanted: NewFunction) => send<CreatedFunction>('POST', '/functions', wanted),
    onSuccess: async ({ files, loaded }) => {
      notifyDone(
        loaded ? `Live: /functions/v1/${name}. Written: ${files.join(', ')}` : `Written: ${files.join(', ')}`,
      );
      onDone();
      await queries.invalidateQueries();
      await navigate({ to: '/functions', search: { name, tab: 'source' } });
    },
  });
  const mistake =
    name !== '' && !NAME.test(name)
      ? 'Use letters, digits, _ and -. Start with a letter.'
      : usedNames.includes(name)
        ? 'A function with this name exists'
        : undefined;
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (name !== '' && mistake === undefined) make.mutate({ name, language, authRequired });
  };
  return (
    <form onSubmit={submit}>
      <Stack>
        <TextInput
          label="Name"
          placeholder="send-receipt"
          data-autofocus
          required
          spellCheck={false}
          value={name}
          error={mistake}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        <SegmentedControl
          aria-label="Language"
          value={language}
          onChange={(value) => setLanguage(value === 'ts' ? 'ts' : 'js')}
          data={[
            { value: 'js', label: 'JavaScript' },
            { value: 'ts', label: 'TypeScript' },
          ]}
        />
        <Switch
          label="Only for signed-in users"
          description="If off, everyone may call it, for example a webhook"
          checked={authRequired}
          onChange={(event) => setAuthRequired(event.currentTarget.checked)}
        />
        <Alert variant="light" color="gray">
          <Text size="sm">
            Writes{' '}
            <Code>
              functions/{name === '' ? '<name>' : name}.{language}
            </Code>{' '}
            with a starter handler, and adds <Code>functions.{name === '' ? '<name>' : name}</Code> to
            svc.yaml.
          </Text>
          {onlyHere && (
            <Text size="sm" mt="xs">
              These files are on the disk of this server. Add them to your repository: the next deployment
              removes them otherwise.
            </Text>
          )}
        </Alert>
        {make.isError && <Failure error={make.error} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={onDone}>
            Cancel
          </Button>
          <Button type="submit" loading={make.isPending} disabled={name === '' || mistake !== undefined}>
            Create function
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
