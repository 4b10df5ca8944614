import { Code, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiUrl, request } from '../../api.ts';
import { Loaded } from '../../parts/states.tsx';
import { contentPath, type Place } from './objects.ts';
import classes from './browser.module.css';

/** Previews pictures and the beginning of texts. Other types have no preview. */
const TEXT = /^(text\/|application\/(json|xml|yaml|javascript|sql|x-ndjson|toml))/;
const MAX_TEXT_BYTES = 64 * 1024;
const MAX_PICTURE_BYTES = 20 * 1024 * 1024;

type PreviewProps = { place: Place; name: string; type: string | undefined; size: number | undefined };

export function Preview({ place, name, type = '', size = 0 }: PreviewProps) {
  const [isBroken, setBroken] = useState(false);
  if (type.startsWith('image/') && size <= MAX_PICTURE_BYTES && !isBroken) {
    return (
      <img
        src={apiUrl(contentPath(place, name))}
        alt={`Preview of ${name}`}
        className={classes['preview']}
        onError={() => setBroken(true)}
      />
    );
  }
  if (TEXT.test(type)) return <TextPreview place={place} name={name} size={size} />;
  return (
    <Text size="sm" c="dimmed">
      No preview of this type.
    </Text>
  );
}

function TextPreview({ place, name, size }: { place: Place; name: string; size: number }) {
  const text = useQuery({
    queryKey: ['storage', 'text', place, name],
    queryFn: async ({ signal }) => {
      const response = await request(contentPath(place, name), {
        signal,
        // A range request fails for an empty file.
        ...(size === 0 ? {} : { headers: { range: `bytes=0-${MAX_TEXT_BYTES - 1}` } }),
      });
      return new TextDecoder().decode(await response.arrayBuffer());
    },
  });
  return (
    <Loaded query={text} rows={4}>
      {(shown) => (
        <Code block tabIndex={0} role="region" aria-label={`Preview of ${name}`} className={classes['text']}>
          {shown}
          {size > MAX_TEXT_BYTES && '\n…'}
        </Code>
      )}
    </Loaded>
  );
}
