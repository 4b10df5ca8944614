// CodeMirror, loaded when a page first needs it.
import { Skeleton } from '@mantine/core';
import { lazy, Suspense } from 'react';

/** Something to say about a line, shown below it. */
export type LineMark = { readonly line: number; readonly message: string };

export type CodeEditorProps = {
  value: string;
  onChange?: (text: string) => void;
  language: 'yaml' | 'sql' | 'javascript' | 'html' | 'json';
  /** For people who do not see it. */
  label: string;
  readOnly?: boolean;
  minHeight?: number;
  maxHeight?: number;
  /** Ctrl-S or Cmd-S inside. */
  onSave?: () => void;
  /** The same list as long as nothing changes. */
  marks?: readonly LineMark[];
};

const Loaded = lazy(async () => ({ default: (await import('./code-mirror.tsx')).CodeMirror }));

export function CodeEditor(props: CodeEditorProps) {
  return (
    <Suspense fallback={<Skeleton height={props.minHeight ?? 160} />}>
      <Loaded {...props} />
    </Suspense>
  );
}
