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
import { Failure, Loaded, mistakeLocation } from '../parts/states.tsx';
import { useCanWrite } from '../session.ts';

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
  const canWrite = useCanWrite() && file.editable;
  // The text is an edit of the version that was loaded before typing began, not of later reads.
  const [base, setBase] = useState(file);
  const [text, setText] = useState(file.text);
  const [discardedText, setDiscardedText] = useState<string>();
  const [isReviewing, setReviewing] = useState(false);
  const isChanged = text !== base.text;
  useBlocker({
    shouldBlockFn: () => isChanged && !window.confirm('Discard your changes and leave?'),
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
  const loadFile = (read: ConfigFile): void => {
    setBase(read);
    setText(read.text);
    check.reset();
  };
  // Without edits, follow the file.
  if (file.version !== base.version && !isChanged) {
    setBase(file);
    setText(file.text);
  }
  const isStale = file.version !== base.version;
  const marks = useMemo(() => toMarks(check.error), [check.error]);
  const name = file.name.split(/[/\\]/).at(-1) ?? file.name;

  return (
    <Frame
      title="Configuration"
      description={
        canWrite ? (
          <>
            Edit {name}. The effects of a change are shown before the file is written.
            {file.shared && ' Every instance then serves it.'}
          </>
        ) : file.editable ? (
          <>{name} is shown here, but cannot be changed: this dashboard is read-only.</>
        ) : file.instances > 1 ? (
          <>
            {name}. {file.instances} instances of this service are running, and each reads its own file.
            Change the file in your repository and deploy it to all of them.
          </>
        ) : (
          <>{file.name} is not a local file. It is shown here, but cannot be changed.</>
        )
      }
      actions={
        canWrite && (
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
        <Alert color="yellow" title={`${name} has changed`} role="alert">
          <Stack gap="xs" align="flex-start">
            <Text size="sm">
              The file changed after you started to edit. Load the new text, then make your change again. Your
              text stays below, so that you can copy from it.
            </Text>
            <Button
              size="xs"
              variant="default"
              onClick={() => {
                setDiscardedText(text);
                loadFile(file);
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
        readOnly={!canWrite}
        minHeight={320}
        maxHeight={discardedText === undefined ? 1200 : 420}
        {...(canWrite && isChanged && !isStale ? { onSave: review } : {})}
        marks={marks}
      />
      {file.includes.length > 0 && (
        <Text size="sm" c="dimmed">
          It includes {file.includes.join(', ')}. Forms on other pages can change the included files; this
          page changes only {name}.
        </Text>
      )}
      {file.overlay !== null && (
        <Text size="sm" c="dimmed">
          {file.overlay} overrides values of this file in the current mode. The dashboard does not change the
          overlay.
        </Text>
      )}
      {discardedText !== undefined && (
        <Stack gap="xs">
          <Group justify="space-between">
            <Text fw={600} size="sm">
              Your discarded text
            </Text>
            <Button size="xs" variant="default" onClick={() => setDiscardedText(undefined)}>
              Dismiss
            </Button>
          </Group>
          <CopyBlock text={discardedText} label="your discarded text" />
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
          setDiscardedText(undefined);
          loadFile(written);
        }}
      />
    </Frame>
  );
}

function isFileChanged(error: unknown): boolean {
  return error instanceof ApiProblem && error.code === 'file_changed';
}

function toMarks(error: unknown): LineMark[] {
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
            <b>{mistakeLocation(mistake)}</b>
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
