import { Group, Stack, Text, Title } from '@mantine/core';
import type { ReactNode } from 'react';

type PageProps = {
  title: ReactNode;
  description?: ReactNode;
  /** Buttons to the right of the title. */
  actions?: ReactNode;
  children: ReactNode;
};

/** Layout of a page: title, one-line description, actions, content. */
export function Page({ title, description, actions, children }: PageProps) {
  return (
    <Stack gap="md">
      <Group justify="space-between" align="flex-start" gap="sm">
        <div>
          <Title order={2} size="h3">
            {title}
          </Title>
          {description !== undefined && (
            <Text c="dimmed" size="sm" maw={720}>
              {description}
            </Text>
          )}
        </div>
        {actions !== undefined && <Group gap="xs">{actions}</Group>}
      </Group>
      {children}
    </Stack>
  );
}
