import { Alert, Button, Group, List, Stack, Text } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useBlocker } from '@tanstack/react-router';
import { useMemo, useState } from 'react';
import type { ConfigFile, ConfigPlan } from '../../../src/dashboard-api/contract.ts';
import { ApiProblem, get, send } from '../api.ts';
import { CodeEditor } from '../parts/code-editor.tsx';
import type { LineMark } from '../parts/code-mirror.tsx';
import { CopyBlock } from '../parts/copy.tsx';
import { Page as Frame } from '../parts/page.tsx';
import { PlanReview } from '../parts/plan-review.tsx';
import { Failure, Loaded, placeOf } from '../parts/states.tsx';
import { useMayWrite } from '../session.ts';

export function Page() {
  const file = useQuery({
    queryKey: ['config'],
    queryFn: ({ signal }) => get<ConfigFile>('/config', signal),
  });
  return (
    <Loaded query={file} rows={16}>
      {(read) => <Editor file={read} />}
    </Loaded>
  );
}

function Editor({ file }: { file: ConfigFile }) {
  const queries = useQueryClient();
  const mayWrite = useMayWrite() && file.editable;
  // What is typed belongs to the file as it was when typing began, whatever is read since.
  const [base, setBase] = useState(file);
  const [text, setText] = useState(file.text);
  const [kept, setKept] = useState<string>();
  const [isReviewing, setReviewing] = useState(false);
  const isChanged = text !== base.text;
  useBlocker({
    shouldBlockFn: () => isChanged && !window.confirm('Leave without what you have typed?'),
    enableBeforeUnload: () => isChanged,
  });
  const check = useMutation({
    mutationFn: (typed: string) =>
      send<ConfigPlan>('POST', '/config/plan', { version: base.version, text: typed }),
    onSuccess: () => setReviewing(true),
    onError: async (error) => {
      if (isFileChanged(error)) await queries.invalidateQueries({ queryKey: ['config'], exact: true });
    },
  });
  const review = (): void => check.mutate(text);
  const take = (read: ConfigFile): void => {
    setBase(read);
    setText(read.text);
    check.reset();
  };
  // Nothing typed: the page follows the file.
  if (file.version !== base.version && !isChanged) {
    setBase(file);
    setText(file.text);
  }
  const isStale = file.version !== base.version;
  const marks = useMemo(() => marksOf(check.error), [check.error]);
  const name = file.name.split(/[/\\]/).at(-1) ?? file.name;

  return (
    <Frame
      title="Configuration"
      description={
        mayWrite ? (
          <>
            {name}, comments and all. What a change would do is shown before anything is written.
            {file.shared && ' It is then served by every instance.'}
          </>
        ) : file.editable ? (
          <>{name}. It can be read here, not changed: the dashboard was started read only.</>
        ) : file.instances > 1 ? (
          <>
            {name}. {file.instances} instances of this service are running, and each reads a file of its own:
            change it where it is kept, and deploy it to all of them.
          </>
        ) : (
          <>{file.name} is not a file of this machine: it can be read here, not changed.</>
        )
      }
      actions={
        mayWrite && (
          <>
            <Button
              size="xs"
              variant="default"
              disabled={!isChanged}
              onClick={() => {
                setText(base.text);
                check.reset();
              }}
            >
              Discard
            </Button>
            <Button size="xs" disabled={!isChanged || isStale} loading={check.isPending} onClick={review}>
              Review
            </Button>
          </>
        )
      }
    >
      {file.shared && file.shared.length > 1 && (
        <Alert color="yellow" title={file.shared[0]} role="status">
          {file.shared.slice(1).map((line) => (
            <Text key={line} size="sm">
              {line}
            </Text>
          ))}
        </Alert>
      )}
      {isStale && (
        <Alert color="yellow" title={`${name} was changed meanwhile`} role="alert">
          <Stack gap="xs" align="flex-start">
            <Text size="sm">
              It was changed after you began to type. Load the new text, then make your change again: what you
              have typed stays below, to copy from.
            </Text>
            <Button
              size="xs"
              variant="default"
              onClick={() => {
                setKept(text);
                take(file);
              }}
            >
              Load the new text
            </Button>
          </Stack>
        </Alert>
      )}
      {check.isError && !isFileChanged(check.error) && <Mistakes error={check.error} />}
      <CodeEditor
        language="yaml"
        label={name}
        value={text}
        onChange={setText}
        readOnly={!mayWrite}
        minHeight={320}
        maxHeight={kept === undefined ? 1200 : 420}
        {...(mayWrite && isChanged && !isStale ? { onSave: review } : {})}
        marks={marks}
      />
      {file.includes.length > 0 && (
        <Text size="sm" c="dimmed">
          It includes {file.includes.join(', ')}: forms of the other pages change these where an entry stands
          in them, this page changes {name} only.
        </Text>
      )}
      {file.overlay !== null && (
        <Text size="sm" c="dimmed">
          {file.overlay} is laid over it in the mode that is served, and has the last word on what it says.
          Nothing here changes it.
        </Text>
      )}
      {kept !== undefined && (
        <Stack gap="xs">
          <Group justify="space-between">
            <Text fw={600} size="sm">
              What you had typed
            </Text>
            <Button size="xs" variant="default" onClick={() => setKept(undefined)}>
              Throw it away
            </Button>
          </Group>
          <CopyBlock text={kept} what="what you had typed" />
        </Stack>
      )}
      <PlanReview
        change={isReviewing ? { text } : undefined}
        version={base.version}
        title={`Change ${name}`}
        onClose={() => setReviewing(false)}
        onApplied={(applied) => {
          const written = { ...base, version: applied.version, text: applied.text };
          queries.setQueryData(['config'], written);
          setKept(undefined);
          take(written);
        }}
      />
    </Frame>
  );
}

function isFileChanged(error: unknown): boolean {
  return error instanceof ApiProblem && error.code === 'file_changed';
}

function marksOf(error: unknown): LineMark[] {
  if (!(error instanceof ApiProblem)) return [];
  return error.mistakes.flatMap(({ file, line, message }) =>
    line === null || file !== null ? [] : [{ line, message }],
  );
}

function Mistakes({ error }: { error: unknown }) {
  const mistakes = error instanceof ApiProblem ? error.mistakes : [];
  if (mistakes.length === 0) return <Failure error={error} />;
  return (
    <Alert
      color="red"
      role="alert"
      title={mistakes.length === 1 ? 'One mistake' : `${mistakes.length} mistakes`}
    >
      <List size="sm">
        {mistakes.map((mistake) => (
          <List.Item key={`${mistake.path} ${mistake.line} ${mistake.message}`}>
            <b>{placeOf(mistake)}</b>
            {mistake.message}
            {mistake.hint !== null && (
              <Text size="xs" c="dimmed">
                {mistake.hint}
              </Text>
            )}
          </List.Item>
        ))}
      </List>
    </Alert>
  );
}
