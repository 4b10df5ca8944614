import { Group, Kbd, Modal, Stack, Text } from '@mantine/core';
import { PAGES } from './pages.ts';

export function KeyboardHelp({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  return (
    <Modal opened={opened} onClose={onClose} title="Keyboard shortcuts">
      <Stack gap="xs">
        {PAGES.map((page) => (
          <Row key={page.path} name={page.name} keys={['g', page.key]} />
        ))}
        <Row name="Search on this page" keys={['/']} />
        <Row name="This list" keys={['?']} />
      </Stack>
    </Modal>
  );
}

function Row({ name, keys }: { name: string; keys: readonly string[] }) {
  return (
    <Group justify="space-between">
      <Text size="sm">{name}</Text>
      <Group gap={4}>
        {keys.map((key) => (
          <Kbd key={key}>{key}</Kbd>
        ))}
      </Group>
    </Group>
  );
}
