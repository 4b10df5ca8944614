// Shows one code function: calls it, follows its log, edits its source.
import { Alert, Anchor, Badge, Code, Group, Tabs, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { CodeFunctionInfo, CodeFunctionList } from '../../../../src/dashboard-api/contract.ts';
import { Copy } from '../../parts/copy.tsx';
import { PageLink } from '../../parts/page-link.tsx';
import { Page as Frame } from '../../parts/page.tsx';
import { usePageSearch } from '../../parts/search-params.ts';
import { Empty, Loaded } from '../../parts/states.tsx';
import { Invoke } from './invoke.tsx';
import { FunctionState } from './list.tsx';
import { FunctionLogs } from './function-logs.tsx';
import { functionsQuery } from './query.ts';
import { Source } from './source.tsx';

export function FunctionDetail({ name }: { name: string }) {
  const functions = useQuery(functionsQuery);
  return (
    <Loaded query={functions}>
      {(list) => {
        const info = list.functions.find((entry) => entry.name === name);
        return (
          <Frame
            title={
              <Group gap="xs" component="span">
                <PageLink search={{}}>Code functions</PageLink>
                <Text span inherit c="dimmed">
                  /
                </Text>
                {name}
                {info && <FunctionState info={info} />}
              </Group>
            }
          >
            {info ? (
              <Detail info={info} list={list} />
            ) : (
              <Empty title={`The function ${name} does not exist`}>
                A new function appears here after svc.yaml has been reloaded.
              </Empty>
            )}
          </Frame>
        );
      }}
    </Loaded>
  );
}

function Detail({ info, list }: { info: CodeFunctionInfo; list: CodeFunctionList }) {
  const [search, change] = usePageSearch();
  return (
    <>
      <Group gap="xs" wrap="wrap">
        <Group gap={2} wrap="nowrap" maw="100%">
          <Anchor href={info.url} target="_blank" rel="noreferrer" size="sm" className="mono truncate">
            {info.url}
          </Anchor>
          <Copy value={info.url} label="URL" />
        </Group>
        <Badge variant="default" tt="none" fw={400}>
          {info.authRequired ? 'signed-in callers only' : 'open to everyone'}
        </Badge>
        <Badge variant="default" tt="none" fw={400}>
          timeout {info.timeoutMs / 1000} s
        </Badge>
        {info.env.length > 0 && (
          <Text size="sm" c="dimmed">
            env: {info.env.join(', ')}
          </Text>
        )}
      </Group>
      {info.error !== null && (
        <Alert color="red" title="It does not load">
          <Code block>{info.error}</Code>
        </Alert>
      )}
      <Tabs
        value={search['tab'] ?? 'invoke'}
        onChange={(tab) => change({ tab: tab ?? undefined })}
        keepMounted={false}
      >
        <Tabs.List mb="md">
          <Tabs.Tab value="invoke">Invoke</Tabs.Tab>
          <Tabs.Tab value="logs">Logs</Tabs.Tab>
          <Tabs.Tab value="source">Source</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="invoke">
          <Invoke info={info} />
        </Tabs.Panel>
        <Tabs.Panel value="logs">
          <FunctionLogs name={info.name} />
        </Tabs.Panel>
        <Tabs.Panel value="source">
          <Source name={info.name} list={list} />
        </Tabs.Panel>
      </Tabs>
    </>
  );
}
