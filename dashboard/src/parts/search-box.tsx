import { TextInput } from '@mantine/core';
import { IconSearch } from '@tabler/icons-react';

/** Search field of a page. The key `/` focuses it. */
export function SearchBox({
  label,
  value,
  onChange,
}: {
  label: string;
  value: string;
  onChange: (text: string) => void;
}) {
  return (
    <TextInput
      type="search"
      size="xs"
      w={{ base: '100%', xs: 240 }}
      aria-label={label}
      placeholder={label}
      data-page-search
      leftSection={<IconSearch size={14} />}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
    />
  );
}
