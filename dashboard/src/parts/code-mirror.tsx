import { useComputedColorScheme } from '@mantine/core';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { javascript } from '@codemirror/lang-javascript';
import { sql } from '@codemirror/lang-sql';
import { yaml } from '@codemirror/lang-yaml';
import { bracketMatching, indentOnInput, syntaxHighlighting } from '@codemirror/language';
import { Compartment, EditorState, type Extension, type Text } from '@codemirror/state';
import {
  Decoration,
  EditorView,
  WidgetType,
  drawSelection,
  highlightActiveLine,
  keymap,
  lineNumbers,
} from '@codemirror/view';
import { useEffect, useLayoutEffect, useRef } from 'react';
import { styleNonce } from '../style-nonce.ts';
import { darkHighlight } from './dark-highlight.ts';
import { lightHighlight } from './light-highlight.ts';

/** A message shown below a line. */
export type LineMark = { readonly line: number; readonly message: string };

export type CodeEditorProps = {
  value: string;
  onChange?: (text: string) => void;
  language: 'yaml' | 'sql' | 'javascript' | 'html' | 'json';
  /** Accessible name. */
  label: string;
  readOnly?: boolean;
  minHeight?: number;
  maxHeight?: number;
  /** Called on Ctrl-S or Cmd-S inside the editor. */
  onSave?: () => void;
  /** When the list changes, the editor scrolls to the first mark. */
  marks?: readonly LineMark[];
};

export function CodeMirror({
  value,
  onChange,
  language,
  label,
  readOnly = false,
  minHeight = 160,
  maxHeight = 640,
  onSave,
  marks = NO_MARKS,
}: CodeEditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(undefined);
  const handlers = useRef({ onChange, onSave });
  handlers.current = { onChange, onSave };
  const marked = useRef(new Compartment());
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
          languageExtension(language),
          syntaxHighlighting(scheme === 'dark' ? darkHighlight : lightHighlight),
          keymap.of([
            {
              key: 'Mod-s',
              preventDefault: true,
              run: () => {
                handlers.current.onSave?.();
                return true;
              },
            },
            // Escape, then Tab, leaves the editor.
            indentWithTab,
            ...defaultKeymap,
            ...historyKeymap,
          ]),
          EditorState.readOnly.of(readOnly),
          EditorView.editable.of(!readOnly),
          EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0' }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) handlers.current.onChange?.(update.state.doc.toString());
          }),
          marked.current.of(marksExtension(marks)),
          editorTheme(scheme === 'dark', minHeight, maxHeight),
        ],
      }),
    });
    view.current = editor;
    return () => editor.destroy();
    // A new value is inserted by the effect below, which keeps the caret.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [language, label, readOnly, scheme, minHeight, maxHeight]);

  // Uses a layout effect to run before the next key press. A later effect would restore an outdated text.
  useLayoutEffect(() => {
    const editor = view.current;
    if (!editor || editor.state.doc.toString() === value) return;
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: value } });
  }, [value]);

  useEffect(() => {
    const editor = view.current;
    if (!editor) return;
    const first = marks.find(({ line }) => hasLine(editor.state.doc, line));
    editor.dispatch({
      effects: [
        marked.current.reconfigure(marksExtension(marks)),
        ...(first
          ? [EditorView.scrollIntoView(editor.state.doc.line(first.line).from, { y: 'center' })]
          : []),
      ],
    });
  }, [marks]);

  return <div ref={host} />;
}

const NO_MARKS: readonly LineMark[] = [];

class Message extends WidgetType {
  readonly #text: string;

  constructor(text: string) {
    super();
    this.#text = text;
  }

  override toDOM(): HTMLElement {
    const element = document.createElement('div');
    element.className = 'cm-mark-message';
    element.textContent = this.#text;
    return element;
  }
}

function marksExtension(marks: readonly LineMark[]): Extension {
  if (marks.length === 0) return [];
  return EditorView.decorations.compute(['doc'], ({ doc }) =>
    Decoration.set(
      marks
        .filter(({ line }) => hasLine(doc, line))
        .flatMap(({ line, message }) => {
          const { from, to } = doc.line(line);
          return [
            Decoration.line({ class: 'cm-marked' }).range(from),
            Decoration.widget({ widget: new Message(message), block: true, side: 1 }).range(to),
          ];
        }),
      true,
    ),
  );
}

function hasLine(doc: Text, line: number): boolean {
  return line >= 1 && line <= doc.lines;
}

function languageExtension(language: CodeEditorProps['language']): Extension {
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

function editorTheme(isDark: boolean, minHeight: number, maxHeight: number): Extension {
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
      '.cm-marked': {
        backgroundColor: 'color-mix(in srgb, var(--mantine-color-red-6) 18%, transparent)',
      },
      '.cm-mark-message': { padding: '0 8px', color: 'var(--mantine-color-error)' },
      '.cm-cursor': { borderLeftColor: 'var(--mantine-color-text)' },
    },
    { dark: isDark },
  );
}
