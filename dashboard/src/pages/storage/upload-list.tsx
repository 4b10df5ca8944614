import { ActionIcon, Button, Group, Paper, Progress, Stack, Text } from '@mantine/core';
import { IconX } from '@tabler/icons-react';
import { formatBytes } from '../../parts/format.tsx';
import { errorMessage } from '../../parts/states.tsx';
import { isTaken, type UploadState } from './use-uploads.ts';

export function UploadList({
  uploads,
  onCancel,
  onReplace,
  onClear,
}: {
  uploads: readonly UploadState[];
  onCancel: (id: number) => void;
  onReplace: (upload: UploadState) => void;
  onClear: () => void;
}) {
  if (uploads.length === 0) return null;
  const isBusy = uploads.some(({ state }) => state === 'waiting' || state === 'sending');
  return (
    <Paper withBorder p="sm" component="section" aria-label="Uploads">
      <Stack gap="sm">
        <Group justify="space-between">
          <Text size="sm" fw={600} role="status">
            {isBusy
              ? `Uploading, ${uploads.filter(({ state }) => state === 'done').length} of ${uploads.length} done`
              : `${uploads.filter(({ state }) => state === 'done').length} of ${uploads.length} uploaded`}
          </Text>
          {!isBusy && (
            <Button size="compact-xs" variant="subtle" onClick={onClear}>
              Close
            </Button>
          )}
        </Group>
        {uploads.map((upload) => (
          <Stack key={upload.id} gap={4}>
            <Group gap="xs" wrap="nowrap" justify="space-between">
              <Text size="sm" className="truncate">
                {upload.file.name}
              </Text>
              <Group gap="xs" wrap="nowrap">
                <Text size="xs" c="dimmed" className="truncate">
                  {stateText(upload)}
                </Text>
                {upload.state === 'refused' && isTaken(upload.error) && (
                  <Button size="compact-xs" variant="light" color="red" onClick={() => onReplace(upload)}>
                    Replace
                  </Button>
                )}
                {(upload.state === 'waiting' || upload.state === 'sending') && (
                  <ActionIcon
                    size="sm"
                    variant="subtle"
                    color="gray"
                    aria-label={`Cancel ${upload.file.name}`}
                    onClick={() => onCancel(upload.id)}
                  >
                    <IconX size={14} />
                  </ActionIcon>
                )}
              </Group>
            </Group>
            {upload.state === 'sending' && (
              <Progress value={upload.sent * 100} size="sm" aria-label={`Upload of ${upload.file.name}`} />
            )}
            {upload.state === 'refused' && (
              <Text size="xs" c="red" role="alert">
                {isTaken(upload.error) ? 'A file with this name exists.' : errorMessage(upload.error)}
              </Text>
            )}
          </Stack>
        ))}
      </Stack>
    </Paper>
  );
}

function stateText({ state, sent, file }: UploadState): string {
  switch (state) {
    case 'waiting':
      return 'waiting';
    case 'sending':
      return `${Math.floor(sent * 100)} % of ${formatBytes(file.size)}`;
    case 'done':
      return 'uploaded';
    case 'cancelled':
      return 'cancelled';
    case 'refused':
      return 'refused';
  }
}
