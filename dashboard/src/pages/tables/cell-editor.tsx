// Edits the value of one cell: Enter saves, Escape cancels.
import { Alert, Button, Group, Popover, Stack, Text } from '@mantine/core';
import { useState, type KeyboardEvent, type ReactNode } from 'react';
import type { ColumnInfo } from '../../../../src/dashboard-api/contract.ts';
import { ApiProblem } from '../../api.ts';
import { errorMessage } from '../../parts/states.tsx';
import { ValueField } from '../../parts/value-field.tsx';
import { valueKind, toJson, toText } from '../../parts/values.ts';

type CellEditorProps = {
  column: ColumnInfo;
  value: unknown;
  /** Rejects with the error to show. The editor then stays open. */
  onSave: (json: string) => Promise<void>;
  onClose: () => void;
  /** The cell that the editor is attached to. */
  children: ReactNode;
};

export function CellEditor({ column, value, onSave, onClose, children }: CellEditorProps) {
  const [text, setText] = useState(toText(value) ?? '');
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();

  const save = async (json: () => string): Promise<void> => {
    setBusy(true);
    setError(undefined);
    try {
      await onSave(json());
    } catch (caught) {
      setError(caught);
    } finally {
      setBusy(false);
    }
  };
  const keep = (): void => {
    if (toText(value) === text) onClose();
    else void save(() => toJson(text, column));
  };
  const isLong = ['json', 'text'].includes(valueKind(column));
  const onKeyDown = (event: KeyboardEvent): void => {
    event.stopPropagation();
    if (event.key === 'Escape') {
      event.preventDefault();
      onClose();
    }
    // Shift-Enter inserts a line break in long text.
    if (event.key === 'Enter' && !event.shiftKey && !(event.target instanceof HTMLButtonElement)) {
      event.preventDefault();
      keep();
    }
  };
  return (
    <Popover
      opened
      onClose={onClose}
      trapFocus
      withArrow
      position="bottom-start"
      shadow="md"
      closeOnEscape={false}
    >
      <Popover.Target>{children}</Popover.Target>
      <Popover.Dropdown aria-label={`Edit ${column.name}`} onKeyDown={onKeyDown} w={360} maw="95vw" p="xs">
        <Stack gap="xs">
          <ValueField
            type={column}
            label={column.name}
            value={text}
            onChange={setText}
            description={`${column.type}${column.notNull ? ', not null' : ''}`}
            autoFocus
          />
          {error !== undefined && <Refusal error={error} />}
          <Group justify="space-between" gap="xs">
            <Group gap={4}>
              {!column.notNull && (
                <Button
                  size="compact-sm"
                  variant="default"
                  disabled={value === null}
                  onClick={() => void save(() => 'null')}
                >
                  Set to NULL
                </Button>
              )}
            </Group>
            <Group gap={4}>
              <Button size="compact-sm" variant="default" onClick={onClose}>
                Cancel
              </Button>
              <Button size="compact-sm" loading={isBusy} onClick={keep}>
                Save
              </Button>
            </Group>
          </Group>
          {isLong && (
            <Text size="xs" c="dimmed">
              Enter saves, Shift-Enter makes a new line, Escape cancels.
            </Text>
          )}
        </Stack>
      </Popover.Dropdown>
    </Popover>
  );
}

function Refusal({ error }: { error: unknown }) {
  const problem = error instanceof ApiProblem ? error : undefined;
  return (
    <Alert color="red" role="alert" p="xs">
      <Text size="sm">{errorMessage(error)}</Text>
      {typeof problem?.details === 'string' && <Text size="xs">{problem.details}</Text>}
      {typeof problem?.hint === 'string' && <Text size="xs">{problem.hint}</Text>}
    </Alert>
  );
}
