import { Anchor, Box, Group, NavLink, Stack, Text, TextInput } from '@mantine/core';
import { IconSearch } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import type { SqlFunctionInfo, SqlFunctionList } from '../../../src/dashboard-api/contract.ts';
import { get } from '../api.ts';
import { Page as Frame } from '../parts/page.tsx';
import { usePageSearch } from '../parts/search-params.ts';
import { Empty, Loaded } from '../parts/states.tsx';
import { FunctionRunner } from './sql-functions/function-runner.tsx';

export function Page() {
  const functions = useQuery({
    queryKey: ['sql-functions'],
    queryFn: ({ signal }) => get<SqlFunctionList>('/sql-functions', signal),
  });
  const [search] = usePageSearch();
  return (
    <Frame title="SQL functions" description="Call the functions under rpc: in svc.yaml as any caller.">
      <Loaded query={functions}>
        {({ functions: all }) => {
          if (all.length === 0) {
            return (
              <Empty title="No SQL functions yet">
                Declare one under <code>rpc:</code> in svc.yaml; the{' '}
                <Anchor inherit renderRoot={(props) => <Link {...props} to="/config" />}>
                  configuration
                </Anchor>{' '}
                can be edited here.
              </Empty>
            );
          }
          const chosen = all.find((routine) => functionId(routine) === search['function']);
          return (
            <Group align="flex-start" wrap="nowrap" gap="lg">
              <Box w={{ base: '100%', md: 220 }} flex="none" {...(chosen ? { visibleFrom: 'md' } : {})}>
                <FunctionList functions={all} chosen={chosen} />
              </Box>
              <Box flex={1} miw={0} {...(chosen ? {} : { visibleFrom: 'md' })}>
                {chosen && (
                  <Anchor
                    size="sm"
                    hiddenFrom="md"
                    renderRoot={(props) => <Link {...props} to="/sql-functions" />}
                  >
                    ← All functions
                  </Anchor>
                )}
                {chosen ? (
                  <FunctionRunner key={functionId(chosen)} routine={chosen} />
                ) : (
                  <Empty title="Choose a function">
                    Its arguments become a form; its result is shown here.
                  </Empty>
                )}
              </Box>
            </Group>
          );
        }}
      </Loaded>
    </Frame>
  );
}

/** Identifies a function. The arguments distinguish overloads. */
function functionId({ schema, name, args }: SqlFunctionInfo): string {
  return `${schema === 'public' ? '' : `${schema}.`}${name}(${args.map(({ type }) => type).join(',')})`;
}

function FunctionList({
  functions,
  chosen,
}: {
  functions: readonly SqlFunctionInfo[];
  chosen: SqlFunctionInfo | undefined;
}) {
  const [search, setSearch] = useState('');
  const found = functions.filter((routine) =>
    functionId(routine).toLowerCase().includes(search.trim().toLowerCase()),
  );
  return (
    <Stack gap="xs">
      <TextInput
        size="xs"
        type="search"
        aria-label="Search functions"
        placeholder="Search functions"
        leftSection={<IconSearch size={14} />}
        value={search}
        onChange={(event) => setSearch(event.currentTarget.value)}
        data-page-search
      />
      {found.length === 0 && <Text size="sm">No function with that name</Text>}
      <nav aria-label="SQL functions">
        {found.map((routine) => (
          <NavLink
            key={functionId(routine)}
            renderRoot={(props) => (
              <Link
                {...props}
                to="/sql-functions"
                search={{ function: functionId(routine) }}
                aria-current={routine === chosen ? 'page' : undefined}
              />
            )}
            px="xs"
            py={4}
            active={routine === chosen}
            label={<span className="truncate">{routine.name}</span>}
            description={`→ ${routine.isSetOf ? 'setof ' : ''}${routine.returns}`}
          />
        ))}
      </nav>
    </Stack>
  );
}
