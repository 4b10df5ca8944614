// Loads CodeMirror when a page first needs it.
import { Skeleton } from '@mantine/core';
import { lazy, Suspense } from 'react';
import type { CodeEditorProps } from './code-mirror.tsx';

const Loaded = lazy(async () => ({ default: (await import('./code-mirror.tsx')).CodeMirror }));

export function CodeEditor(props: CodeEditorProps) {
  return (
    <Suspense fallback={<Skeleton height={props.minHeight ?? 160} />}>
      <Loaded {...props} />
    </Suspense>
  );
}
