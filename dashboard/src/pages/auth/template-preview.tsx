import { Alert, Code, Group, SegmentedControl, Stack, Text } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { MailPage, MailPreview, MailPreviewRequest } from '../../../../src/dashboard-api/contract.ts';
import { apiUrl, send } from '../../api.ts';
import { Loaded } from '../../parts/states.tsx';
import classes from './template-preview.module.css';

export function TemplatePreview(wanted: MailPreviewRequest) {
  const [view, setView] = useState('html');
  const [settled] = useDebouncedValue(JSON.stringify(wanted), 250);
  const preview = useQuery({
    queryKey: ['auth', 'preview', settled],
    queryFn: async () => {
      const shown = await send<MailPreview>('POST', '/auth/templates/preview', JSON.parse(settled));
      if (!shown.ok || shown.html === null) return { ...shown, path: null };
      const { path } = await send<MailPage>('POST', '/auth/templates/page', { html: shown.html });
      return { ...shown, path };
    },
    placeholderData: keepPreviousData,
    // The page at this path expires.
    staleTime: 0,
    gcTime: 0,
  });
  return (
    <Stack gap="sm" component="section" aria-label="Preview" miw={0}>
      <Loaded query={preview}>
        {(shown) =>
          shown.ok ? (
            <>
              <Group justify="space-between" wrap="nowrap" align="flex-end">
                <div>
                  <Text size="xs" c="dimmed">
                    Mail with example values:
                  </Text>
                  <Text fw={600}>{shown.subject}</Text>
                </div>
                {shown.html !== null && (
                  <SegmentedControl
                    aria-label="Show"
                    size="xs"
                    value={view}
                    onChange={setView}
                    data={[
                      { value: 'html', label: 'Mail' },
                      { value: 'text', label: 'Text' },
                    ]}
                  />
                )}
              </Group>
              {shown.path !== null && view === 'html' ? (
                <iframe
                  title="Preview of the mail"
                  sandbox=""
                  src={apiUrl(shown.path)}
                  className={classes['frame']}
                />
              ) : (
                <Code
                  block
                  tabIndex={0}
                  role="region"
                  aria-label="Text of the mail"
                  className={classes['text']}
                >
                  {shown.text}
                </Code>
              )}
            </>
          ) : (
            <Alert color="red" title="The template cannot be read" role="alert">
              {shown.error}
            </Alert>
          )
        }
      </Loaded>
    </Stack>
  );
}
