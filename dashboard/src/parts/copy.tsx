import { ActionIcon, Code, CopyButton, Group, Tooltip } from '@mantine/core';
import { IconCheck, IconCopy } from '@tabler/icons-react';

/** `what` completes "Copy …" for people who do not see the icon. */
export function Copy({ value, what }: { value: string; what: string }) {
  return (
    <CopyButton value={value} timeout={1500}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? 'Copied' : `Copy ${what}`}>
          <ActionIcon
            variant="subtle"
            color={copied ? 'teal' : 'gray'}
            onClick={copy}
            aria-label={`Copy ${what}`}
          >
            {copied ? <IconCheck size={16} /> : <IconCopy size={16} />}
          </ActionIcon>
        </Tooltip>
      )}
    </CopyButton>
  );
}

/** A block of text to paste elsewhere. */
export function CopyBlock({ text, what }: { text: string; what: string }) {
  return (
    <Group align="flex-start" gap={4} wrap="nowrap">
      <Code block flex={1} miw={0} tabIndex={0} role="region" aria-label={what}>
        {text}
      </Code>
      <Copy value={text} what={what} />
    </Group>
  );
}
