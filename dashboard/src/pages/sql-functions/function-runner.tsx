// Calls an SQL function as a chosen caller, with a form for its arguments, and shows the result.
import { Badge, Button, Code, Group, Paper, Stack, Text, Title } from '@mantine/core';
import { IconPlayerPlay } from '@tabler/icons-react';
import { useMutation } from '@tanstack/react-query';
import { useState, type FormEvent } from 'react';
import type { CallerName, SqlFunctionInfo } from '../../../../src/dashboard-api/contract.ts';
import { as, request } from '../../api.ts';
import { CallerPicker, isCallerName } from '../../parts/caller-picker.tsx';
import { CodeEditor } from '../../parts/code-editor.tsx';
import { usePageSearch } from '../../parts/search-params.ts';
import { Failure, errorMessage } from '../../parts/states.tsx';
import { ValueField } from '../../parts/value-field.tsx';
import { jsonObject, toJson } from '../../parts/values.ts';
import { useCanWrite } from '../../session.ts';
import { FunctionResult, type Result } from './function-result.tsx';

export function FunctionRunner({ routine }: { routine: SqlFunctionInfo }) {
  const [search, setSearch] = usePageSearch();
  const caller = isCallerName(search['caller']) ? search['caller'] : 'service';
  const canWrite = useCanWrite();
  const [texts, setTexts] = useState<Readonly<Record<string, string>>>({});
  const [mistakes, setMistakes] = useState<Readonly<Record<string, string>>>({});
  // A read-only dashboard does not call volatile functions, which may change rows. It calls the others with GET.
  const canRun = canWrite || routine.volatility !== 'volatile';
  const run = useMutation({
    mutationFn: (args: Args) => call(routine, caller, args, canWrite ? 'POST' : 'GET'),
  });

  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const found: Record<string, string> = {};
    const members: Array<readonly [string, string, string]> = [];
    for (const arg of routine.args) {
      const text = texts[arg.name] ?? '';
      try {
        if (text !== '') members.push([arg.name, toJson(text, arg), text]);
        else if (!arg.hasDefault) found[arg.name] = 'A value is required: there is no default';
      } catch (error) {
        found[arg.name] = errorMessage(error);
      }
    }
    setMistakes(found);
    if (Object.keys(found).length === 0) run.mutate(members);
  };

  return (
    <Stack>
      <div>
        <Group gap="xs">
          <Title order={3} size="h4">
            {routine.name}
          </Title>
          <Badge variant="default" size="sm">
            {routine.volatility}
          </Badge>
          {routine.authRequired && (
            <Badge variant="light" size="sm">
              signed in only
            </Badge>
          )}
        </Group>
        <Text size="sm" c="dimmed" className="mono">
          ({routine.args.map(({ name, type }) => `${name} ${type}`).join(', ')}) →{' '}
          {routine.isSetOf ? 'setof ' : ''}
          {routine.returns}
        </Text>
      </div>
      <Paper withBorder p="md" maw={720}>
        <form onSubmit={submit} noValidate>
          <Stack gap="sm">
            {routine.args.length === 0 && <Text size="sm">It takes no arguments.</Text>}
            {routine.args.map((arg) => (
              <ValueField
                key={arg.name}
                type={arg}
                label={arg.name}
                description={arg.type}
                required={!arg.hasDefault}
                placeholder={arg.hasDefault ? 'default' : ''}
                value={texts[arg.name] ?? ''}
                onChange={(text) => setTexts((before) => ({ ...before, [arg.name]: text }))}
                error={mistakes[arg.name]}
              />
            ))}
            <Group justify="space-between" gap="xs">
              <CallerPicker
                value={caller}
                onChange={(next) => setSearch({ caller: next === 'service' ? undefined : next })}
              />
              <Button
                type="submit"
                size="xs"
                leftSection={<IconPlayerPlay size={14} />}
                loading={run.isPending}
                disabled={!canRun}
              >
                Run
              </Button>
            </Group>
            {!canRun && (
              <Text size="xs" c="dimmed">
                This dashboard is read-only, and a volatile function may change rows.
              </Text>
            )}
          </Stack>
        </form>
      </Paper>
      <div aria-live="polite">
        {run.isError && <Failure error={run.error} />}
        {run.data && <FunctionResult result={run.data} />}
      </div>
      {routine.sql !== null && (
        <details>
          <summary>
            <Text span size="sm">
              Body in svc.yaml
            </Text>
          </summary>
          <CodeEditor
            language="sql"
            label={`Body of ${routine.name}`}
            value={routine.sql}
            readOnly
            minHeight={60}
          />
        </details>
      )}
      {!routine.managed && (
        <Text size="sm" c="dimmed">
          svc.yaml serves this through <Code>expose:</Code> and does not manage it.
        </Text>
      )}
    </Stack>
  );
}

/** `json`: value in the body. `text`: value in the query string. */
type Args = ReadonlyArray<readonly [name: string, json: string, text: string]>;

async function call(
  routine: SqlFunctionInfo,
  caller: CallerName,
  args: Args,
  method: 'GET' | 'POST',
): Promise<Result> {
  const path = `rpc/${encodeURIComponent(routine.name)}`;
  const profile: Record<string, string> =
    routine.schema === 'public'
      ? {}
      : { [method === 'GET' ? 'accept-profile' : 'content-profile']: routine.schema };
  const query = new URLSearchParams(args.map(([name, , text]) => [name, text])).toString();
  const startedAt = performance.now();
  const response =
    method === 'GET'
      ? await request(as(caller, 'rest', query === '' ? path : `${path}?${query}`), { headers: profile })
      : await request(as(caller, 'rest', path), {
          method,
          headers: { 'content-type': 'application/json', ...profile },
          body: jsonObject(args.map(([name, json]) => [name, json])),
        });
  const text = await response.text();
  return { status: response.status, text, milliseconds: performance.now() - startedAt };
}
