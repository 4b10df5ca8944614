import { ActionIcon, Code, CopyButton, Group, Tooltip } from '@mantine/core';
import { IconCheck, IconCopy } from '@tabler/icons-react';

/** `label`: completes the accessible name "Copy …". */
export function Copy({ value, label }: { value: string; label: string }) {
  return (
    <CopyButton value={value} timeout={1500}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? 'Copied' : `Copy ${label}`}>
          <ActionIcon
            variant="subtle"
            color={copied ? 'teal' : 'gray'}
            onClick={copy}
            aria-label={`Copy ${label}`}
          >
            {copied ? <IconCheck size={16} /> : <IconCopy size={16} />}
          </ActionIcon>
        </Tooltip>
      )}
    </CopyButton>
  );
}

/** A block of text with a copy button. */
export function CopyBlock({ text, label }: { text: string; label: string }) {
  return (
    <Group align="flex-start" gap={4} wrap="nowrap">
      <Code block flex={1} miw={0} tabIndex={0} role="region" aria-label={label}>
        {text}
      </Code>
      <Copy value={text} label={label} />
    </Group>
  );
}
