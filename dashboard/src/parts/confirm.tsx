import { Alert, Button, Group, Modal, Stack, TextInput } from '@mantine/core';
import { useState, type ReactNode } from 'react';
import { errorMessage } from './states.tsx';

type ConfirmProps = {
  opened: boolean;
  onClose: () => void;
  title: string;
  /** Exact effects of the action. */
  children: ReactNode;
  /** Label of the button: the action itself, not "OK". */
  act: string;
  /** Text that the user must type first, if the action is irreversible. */
  typed?: string;
  onConfirm: () => Promise<unknown>;
};

/** Asks for confirmation of a destructive action. */
export function Confirm({ opened, onClose, title, children, act, typed, onConfirm }: ConfirmProps) {
  const [text, setText] = useState('');
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const close = (): void => {
    setText('');
    setError(undefined);
    onClose();
  };
  const confirm = async (): Promise<void> => {
    setBusy(true);
    setError(undefined);
    try {
      await onConfirm();
      close();
    } catch (caught) {
      setError(caught);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Modal opened={opened} onClose={close} title={title}>
      <Stack>
        <div>{children}</div>
        {typed !== undefined && (
          <TextInput
            label={`Type ${typed} to continue`}
            value={text}
            onChange={(event) => setText(event.currentTarget.value)}
            data-autofocus
          />
        )}
        {error !== undefined && (
          <Alert color="red" role="alert">
            {errorMessage(error)}
          </Alert>
        )}
        <Group justify="flex-end">
          <Button variant="default" onClick={close}>
            Cancel
          </Button>
          <Button
            color="red"
            loading={isBusy}
            disabled={typed !== undefined && text !== typed}
            onClick={() => void confirm()}
          >
            {act}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
