// API documentation of this project: its tables and functions with examples, from its OpenAPI document.
import { NavLink, SegmentedControl, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import type { CodeFunctionList, Overview } from '../../../src/dashboard-api/contract.ts';
import { as, get } from '../api.ts';
import { CallerPicker, isCallerName } from '../parts/caller-picker.tsx';
import { Page as Frame } from '../parts/page.tsx';
import { SearchBox } from '../parts/search-box.tsx';
import { usePageSearch } from '../parts/search-params.ts';
import { Empty, Loaded } from '../parts/states.tsx';
import { EntryDocs } from './api-docs/entry-docs.tsx';
import { readDocs, type Docs, type OpenApiDocument } from './api-docs/openapi.ts';
import { SECTIONS, type Language, type Project } from './api-docs/snippets.ts';
import { listBuckets } from './storage/objects.ts';
import classes from './api-docs/api-docs.module.css';

export function Page() {
  const [search, change] = usePageSearch();
  const caller = isCallerName(search['caller']) ? search['caller'] : 'service';
  const language: Language = search['language'] === 'curl' ? 'curl' : 'js';
  const docs = useQuery({
    queryKey: ['api-docs', caller],
    queryFn: async ({ signal }) =>
      readDocs(
        await get<OpenApiDocument>(as(caller, 'rest', ''), signal, 'application/vnd.oai.openapi+json'),
      ),
  });
  const overview = useQuery({
    queryKey: ['overview'],
    queryFn: ({ signal }) => get<Overview>('/overview', signal),
    staleTime: 60_000,
  });
  return (
    <Frame
      title="API docs"
      description={
        'The tables and functions that this caller may use, with examples. ' +
        'The OpenAPI document is served at /openapi.json.'
      }
      actions={
        <>
          <SegmentedControl
            aria-label="Language"
            size="xs"
            value={language}
            onChange={(value) => change({ language: value === 'js' ? undefined : value })}
            data={[
              { value: 'js', label: 'supabase-js' },
              { value: 'curl', label: 'curl' },
            ]}
          />
          <CallerPicker value={caller} onChange={(chosen) => change({ caller: chosen })} />
        </>
      }
    >
      <Loaded query={overview}>
        {({ url, publishableKey }) => (
          <Loaded query={docs}>
            {(found) => <DocsView docs={found} language={language} project={{ url, publishableKey }} />}
          </Loaded>
        )}
      </Loaded>
    </Frame>
  );
}

function DocsView({ docs, language, project }: { docs: Docs; language: Language; project: Project }) {
  const [search] = usePageSearch();
  const [text, setText] = useState('');
  const shown = search['show'] ?? 'start';
  const buckets = useQuery({
    queryKey: ['storage', 'buckets'],
    queryFn: ({ signal }) => listBuckets(signal),
  });
  const functions = useQuery({
    queryKey: ['functions'],
    queryFn: ({ signal }) => get<CodeFunctionList>('/functions', signal),
  });
  const fits = ({ name }: { name: string }): boolean =>
    name.toLowerCase().includes(text.trim().toLowerCase());
  const groups = [
    { title: 'Start', entries: [{ id: 'start', name: 'Set up' }] },
    { title: 'Tables', entries: docs.tables.map(({ name }) => ({ id: `table.${name}`, name })) },
    { title: 'SQL functions', entries: docs.functions.map(({ name }) => ({ id: `rpc.${name}`, name })) },
    { title: 'Other APIs', entries: SECTIONS.map(({ name, title }) => ({ id: name, name: title })) },
  ].map((group) => ({ ...group, entries: group.entries.filter(fits) }));
  return (
    <div className={classes['panes']}>
      <Stack gap="xs" component="nav" aria-label="Contents">
        <SearchBox label="Search tables and functions" value={text} onChange={setText} />
        <div className={classes['contents']}>
          {groups.map(
            (group) =>
              group.entries.length > 0 && (
                <div key={group.title} role="group" aria-label={group.title}>
                  <Text size="xs" c="dimmed" fw={600} px="sm" pt="xs">
                    {group.title}
                  </Text>
                  {group.entries.map(({ id, name }) => (
                    <NavLink
                      key={id}
                      renderRoot={(props) => (
                        <Link
                          {...props}
                          to="."
                          search={{ ...search, show: id }}
                          aria-current={id === shown ? 'true' : undefined}
                        />
                      )}
                      label={name}
                      active={id === shown}
                      py={4}
                    />
                  ))}
                </div>
              ),
          )}
          {groups.every(({ entries }) => entries.length === 0) && <Empty title="No matches" />}
        </div>
      </Stack>
      <EntryDocs
        docs={docs}
        shown={shown}
        language={language}
        project={project}
        names={{
          bucket: buckets.data?.[0]?.id ?? 'bucket',
          fn: functions.data?.functions[0]?.name ?? 'function',
        }}
      />
    </div>
  );
}
