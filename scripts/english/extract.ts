// Extracts the texts of a file that `npm run english` checks. Comments fill whole lines in this project, so regular
// expressions are enough and no parser runs.

export type Extract = {
  readonly kind:
    | 'comment'
    | 'doc-comment'
    | 'string'
    | 'heading'
    | 'page'
    | 'file-name'
    | 'constant'
    | 'function'
    | 'parameter'
    | 'line'
    | 'commit';
  readonly line: number;
  readonly text: string;
};

const COMMENT = /^[ \t]*\/\*[\s\S]*?\*\/|(?:^[ \t]*\/\/.*(?:\n|$))+/gm;
const TOKEN = new RegExp(
  [
    String.raw`(?<quoted>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")`,
    String.raw`(?<tag>\b[\w$]+)?(?<template>${'`'}(?:[^${'`'}\\]|\\[\s\S])*${'`'})`,
    // A regular expression, which may contain quotes.
    String.raw`(?<=[=(,:!&|?[;]\s*)\/(?![*/])(?:[^/\\\n[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/`,
  ].join('|'),
  'g',
);
/** Tags of templates that contain SQL. */
const SQL_TAGS = new Set(['sql', 'raw']);
const FUNCTION_VALUE = String.raw`(?:async )?(?:function\b|\(|[\w$]+ =>)`;
const STATEMENT = String.raw`(?:if|for|while|switch|catch|super)\b`;
const PARAMETERS = String.raw`(?:<.*>)?\(.*\)(?:: .+)?(?: \{|;)`;
const DECLARATION = new RegExp(
  [
    String.raw`^[ \t]*(?:export )?(?:default )?(?:async )?function\*? (?<declared>[\w$]+)`,
    String.raw`^[ \t]*(?:export )?(?:const|let) (?<value>[\w$]+)(?:: [^=\n]+)? = (?<isFunction>${FUNCTION_VALUE})?`,
    String.raw`^[ \t]+(?:(?:static|async|get|set|override) |\*)*(?<method>#?(?!${STATEMENT})[\w$]+)${PARAMETERS}$`,
    String.raw`^[ \t]+(?:readonly )?(?<property>[\w$]+)\??: \(.*=>`,
  ].join('|'),
  'gm',
);
const ARROW_PARAMETERS = /(?:\(([^()]*)\)(?:: [^=()]+)?|\b([\w$]+)) =>/g;
const FUNCTION_PARAMETERS = /\bfunction\*? [\w$]*(?:<[^()]*>)?\(([^()]*)\)/g;

/** Returns the texts of a TypeScript or Markdown file. `path` selects the language. */
export function extractTexts(path: string, content: string): readonly Extract[] {
  const name = (path.split('/').at(-1) ?? '').replace(/\..*$/, '').replaceAll('-', ' ');
  const texts = path.endsWith('.md') ? markdownTexts(content) : typescriptTexts(content);
  return [{ kind: 'file-name', line: 1, text: name }, ...texts];
}

function typescriptTexts(content: string): readonly Extract[] {
  const at = lineCounter(content);
  const comments: readonly Extract[] = [...content.matchAll(COMMENT)].map(({ 0: text, index }) => ({
    kind: /^\s*\/\*\*/.test(text) ? 'doc-comment' : 'comment',
    line: at(index),
    text: prose(text.replaceAll(/^[ \t]*(?:\/\*+|\*+\/?|\/\/)[ \t]?|\*\/$/gm, '')),
  }));
  const code = content.replaceAll(COMMENT, (text) => text.replaceAll(/[^\n]/g, ' '));
  const lines = content.split('\n').map((text, index): Extract => ({ kind: 'line', line: index + 1, text }));
  return [...comments, ...strings(code, at), ...names(code, at), ...lines];
}

function strings(code: string, at: (index: number) => number): readonly Extract[] {
  return [...code.matchAll(TOKEN)].flatMap(({ groups = {}, index }): Extract[] => {
    const text = (groups['quoted'] ?? groups['template'])?.slice(1, -1);
    // A string without a space is a key or an identifier.
    if (!text?.includes(' ') || SQL_TAGS.has(groups['tag'] ?? '')) return [];
    return [{ kind: 'string', line: at(index), text: prose(text.replaceAll(/\$\{[^}]*\}/g, '…')) }];
  });
}

function names(code: string, at: (index: number) => number): readonly Extract[] {
  const declared = [...code.matchAll(DECLARATION)].map(({ 0: text, groups = {}, index }): Extract => {
    const { declared: own, method, property, value = '', isFunction } = groups;
    const name = own ?? method ?? property;
    const kind = name !== undefined || isFunction !== undefined ? 'function' : 'constant';
    return { kind, line: at(index + text.search(/\S/)), text: name ?? value };
  });
  const parameters = [...code.matchAll(ARROW_PARAMETERS), ...code.matchAll(FUNCTION_PARAMETERS)].flatMap(
    ({ 1: list, 2: single = '', index }) =>
      (list ?? single).split(',').map((parameter): Extract => {
        const text = /^\s*([\w$]+)/.exec(parameter)?.[1] ?? '';
        return { kind: 'parameter', line: at(index), text };
      }),
  );
  return [...declared, ...parameters];
}

function markdownTexts(content: string): readonly Extract[] {
  const blank = (text: string): string => text.replaceAll(/[^\n]/g, '');
  const page = content.replaceAll(/^( *)(`{3,})[^\n]*\n[\s\S]*?^ *\2 *$/gm, blank);
  return page.split('\n').map((text, index): Extract => {
    const heading = /^#+ (.*)$/.exec(text)?.[1];
    return {
      kind: heading === undefined ? 'page' : 'heading',
      line: index + 1,
      text: prose(heading ?? text),
    };
  });
}

/** Removes inline code and targets of links. */
function prose(text: string): string {
  return text
    .trim()
    .replaceAll(/`[^`]*`/g, '`…`')
    .replaceAll(/\]\([^)\s]*\)/g, ']');
}

/** Returns a function from an index of a text to its line, from 1. */
function lineCounter(text: string): (index: number) => number {
  const starts = [0, ...[...text.matchAll(/\n/g)].map(({ index }) => index + 1)];
  return (index) => {
    let [low, high] = [0, starts.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((starts[middle] ?? 0) <= index) low = middle + 1;
      else high = middle;
    }
    return low;
  };
}
