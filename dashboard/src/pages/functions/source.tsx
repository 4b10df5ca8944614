// Edits the source of a function. A save carries the version it is based on, so that it never overwrites a concurrent
// change.
import { Alert, Button, Code, Group, Stack, Text } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useBlocker } from '@tanstack/react-router';
import { useState } from 'react';
import type {
  CodeFunctionList,
  FunctionSaved,
  FunctionSource,
} from '../../../../src/dashboard-api/contract.ts';
import { ApiProblem, get, send } from '../../api.ts';
import { CodeEditor } from '../../parts/code-editor.tsx';
import { notifyDone, notifyFailure } from '../../parts/notify.ts';
import { Failure, Loaded } from '../../parts/states.tsx';
import { useCanWrite } from '../../session.ts';
import { functionsQuery } from './query.ts';

export function Source({ name, list }: { name: string; list: CodeFunctionList }) {
  const path = `/functions/${encodeURIComponent(name)}/source`;
  const source = useQuery({
    queryKey: ['functions', name, 'source'],
    queryFn: ({ signal }) => get<FunctionSource>(path, signal),
    enabled: list.readable,
  });
  if (!list.readable) {
    return <Text size="sm">This instance runs a bundle: there is no source to show here.</Text>;
  }
  return (
    <Stack gap="sm">
      {!list.editable && (
        <Alert variant="light" color="gray">
          {list.instances} instances of this service are running, and each has its own files. This source
          belongs to the instance that you are connected to. Change it in your repository and deploy it to all
          of them.
        </Alert>
      )}
      <Loaded query={source}>
        {(found) => <Editor name={name} path={path} found={found} isEditable={list.editable} />}
      </Loaded>
    </Stack>
  );
}

/** Unsaved text, and the version of the file that it is based on. */
type Draft = { text: string; version: string };

function Editor({
  name,
  path,
  found,
  isEditable,
}: {
  name: string;
  path: string;
  found: FunctionSource;
  isEditable: boolean;
}) {
  const queries = useQueryClient();
  const canWrite = useCanWrite() && isEditable;
  const [draft, setDraft] = useState<Draft>();
  const keep = (source: FunctionSource): void => {
    queries.setQueryData(['functions', name, 'source'], source);
  };
  const save = useMutation({
    mutationFn: (wanted: Draft) => send<FunctionSaved>('PUT', path, wanted),
    onSuccess: async (saved) => {
      keep(saved);
      // Text typed during the save stays a draft, based on the new version.
      setDraft((now) =>
        now === undefined || now.text === saved.text ? undefined : { ...now, version: saved.version },
      );
      if (saved.loaded && saved.error !== null)
        notifyFailure(new Error(`${saved.file} was saved, but does not load`));
      else notifyDone(saved.loaded ? `${saved.file} was saved and is live` : `${saved.file} was saved`);
      await queries.invalidateQueries({ queryKey: functionsQuery.queryKey, exact: true });
    },
  });
  const hasChangedMeanwhile =
    save.error instanceof ApiProblem && save.error.code === 'file_changed' && draft !== undefined;
  const isDirty = draft !== undefined && draft.text !== found.text;
  useBlocker({
    // oxlint-disable-next-line no-alert
    shouldBlockFn: ({ current, next }) =>
      current.pathname !== next.pathname && !window.confirm('Discard your unsaved changes and leave?'),
    enableBeforeUnload: true,
    disabled: !isDirty,
  });
  const saveNow = (): void => {
    if (draft && isDirty && canWrite) save.mutate(draft);
  };
  return (
    <Stack gap="sm">
      <Group justify="space-between">
        <Text size="sm">
          <Code>{found.file}</Code>{' '}
          {isDirty && (
            <Text span inherit c="dimmed">
              · not saved
            </Text>
          )}
        </Text>
        <Group gap="xs">
          {isDirty && (
            <Button
              size="xs"
              variant="default"
              onClick={() => {
                setDraft(undefined);
                save.reset();
              }}
            >
              Discard changes
            </Button>
          )}
          {canWrite && (
            <Button
              size="xs"
              loading={save.isPending}
              disabled={!isDirty || hasChangedMeanwhile}
              onClick={saveNow}
            >
              Save
            </Button>
          )}
        </Group>
      </Group>
      {hasChangedMeanwhile ? (
        <ChangedMeanwhile
          path={path}
          draft={draft}
          onTheirs={(theirs) => {
            keep(theirs);
            setDraft(undefined);
            save.reset();
          }}
          onMine={(version) => save.mutate({ ...draft, version })}
        />
      ) : (
        save.isError && <Failure error={save.error} />
      )}
      <CodeEditor
        language="javascript"
        label={`Source of ${name}`}
        minHeight={320}
        readOnly={!canWrite}
        value={draft?.text ?? found.text}
        onChange={(text) =>
          setDraft((now) =>
            now === undefined && text === found.text ? now : { text, version: now?.version ?? found.version },
          )
        }
        onSave={saveNow}
      />
    </Stack>
  );
}

function ChangedMeanwhile({
  path,
  draft,
  onTheirs,
  onMine,
}: {
  path: string;
  draft: Draft;
  onTheirs: (theirs: FunctionSource) => void;
  onMine: (version: string) => void;
}) {
  const theirs = useQuery({
    queryKey: ['functions', 'theirs', path, draft.version],
    queryFn: ({ signal }) => get<FunctionSource>(path, signal),
    gcTime: 0,
    staleTime: 0,
  });
  return (
    <Alert color="yellow" title="The file has been changed elsewhere" role="alert">
      <Stack gap="xs">
        <Text size="sm">Nothing was saved. Your text is still below. This is the current file:</Text>
        <Loaded query={theirs}>
          {(source) => (
            <>
              <CodeEditor
                language="javascript"
                label="Current file"
                readOnly
                minHeight={80}
                maxHeight={280}
                value={source.text}
              />
              <Group gap="xs">
                <Button size="xs" variant="default" onClick={() => onTheirs(source)}>
                  Use the file, discard my text
                </Button>
                <Button size="xs" color="red" onClick={() => onMine(source.version)}>
                  Overwrite it with my text
                </Button>
              </Group>
            </>
          )}
        </Loaded>
      </Stack>
    </Alert>
  );
}
