import { useComputedColorScheme } from '@mantine/core';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { javascript } from '@codemirror/lang-javascript';
import { sql } from '@codemirror/lang-sql';
import { yaml } from '@codemirror/lang-yaml';
import {
  bracketMatching,
  defaultHighlightStyle,
  indentOnInput,
  syntaxHighlighting,
} from '@codemirror/language';
import { EditorState, type Extension } from '@codemirror/state';
import { EditorView, drawSelection, highlightActiveLine, keymap, lineNumbers } from '@codemirror/view';
import { useEffect, useRef } from 'react';
import { styleNonce } from '../style-nonce.ts';
import type { CodeEditorProps } from './code-editor.tsx';
import { darkHighlight } from './dark-highlight.ts';

export function CodeMirror({
  value,
  onChange,
  language,
  label,
  readOnly = false,
  minHeight = 160,
  maxHeight = 640,
  onSave,
}: CodeEditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(undefined);
  const handlers = useRef({ onChange, onSave });
  handlers.current = { onChange, onSave };
  const scheme = useComputedColorScheme('light');

  useEffect(() => {
    if (!host.current) return;
    const editor = new EditorView({
      parent: host.current,
      state: EditorState.create({
        doc: value,
        extensions: [
          EditorView.cspNonce.of(styleNonce()),
          lineNumbers(),
          history(),
          drawSelection(),
          highlightActiveLine(),
          indentOnInput(),
          bracketMatching(),
          languageOf(language),
          syntaxHighlighting(scheme === 'dark' ? darkHighlight : defaultHighlightStyle),
          keymap.of([
            {
              key: 'Mod-s',
              preventDefault: true,
              run: () => {
                handlers.current.onSave?.();
                return true;
              },
            },
            // Escape, then Tab leaves the editor.
            indentWithTab,
            ...defaultKeymap,
            ...historyKeymap,
          ]),
          EditorState.readOnly.of(readOnly),
          EditorView.editable.of(!readOnly),
          EditorView.contentAttributes.of({ 'aria-label': label, ...(readOnly ? { tabindex: '0' } : {}) }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) handlers.current.onChange?.(update.state.doc.toString());
          }),
          look(scheme === 'dark', minHeight, maxHeight),
        ],
      }),
    });
    view.current = editor;
    return () => editor.destroy();
    // A new text is put in below, without losing the caret.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [language, label, readOnly, scheme, minHeight, maxHeight]);

  useEffect(() => {
    const editor = view.current;
    if (!editor || editor.state.doc.toString() === value) return;
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: value } });
  }, [value]);

  return <div ref={host} />;
}

function languageOf(language: CodeEditorProps['language']): Extension {
  switch (language) {
    case 'yaml':
      return yaml();
    case 'sql':
      return sql();
    case 'javascript':
      return javascript({ typescript: true });
    case 'json':
      return javascript();
    case 'html':
      return [];
  }
}

function look(isDark: boolean, minHeight: number, maxHeight: number): Extension {
  return EditorView.theme(
    {
      '&': {
        border: '1px solid var(--mantine-color-default-border)',
        borderRadius: 'var(--mantine-radius-sm)',
        backgroundColor: 'var(--mantine-color-default)',
        color: 'var(--mantine-color-text)',
        fontSize: '13px',
      },
      '&.cm-focused': { outline: '2px solid var(--mantine-primary-color-filled)', outlineOffset: '-1px' },
      '.cm-scroller': {
        fontFamily: 'var(--mantine-font-family-monospace)',
        minHeight: `${minHeight}px`,
        maxHeight: `${maxHeight}px`,
      },
      '.cm-gutters': {
        backgroundColor: 'transparent',
        color: 'var(--mantine-color-dimmed)',
        border: 'none',
      },
      '.cm-activeLine': { backgroundColor: 'color-mix(in srgb, var(--mantine-color-text) 5%, transparent)' },
      '.cm-cursor': { borderLeftColor: 'var(--mantine-color-text)' },
    },
    { dark: isDark },
  );
}
