// Mail templates: `{{ .A.b }}` and `{{ if .A }} … {{ else }} … {{ end }}`, without function calls. Every value is
// escaped for HTML, because anybody who signs up can write user metadata.
import { isJsonObject, type JsonObject } from '../fields.ts';

export type TemplateValues = Readonly<Record<string, unknown>>;

export type TemplateNode =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'value'; readonly path: readonly string[] }
  | {
      readonly kind: 'if';
      readonly path: readonly string[];
      readonly negated: boolean;
      readonly when: readonly TemplateNode[];
      readonly otherwise: readonly TemplateNode[];
    };

const TAG = /\{\{-?\s*(.*?)\s*-?\}\}/gs;
const PATH = /^(?:html\s+)?\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)$/;
/**
 * Maximum length of a value. User metadata has a lower limit, which fits a name but not an attacker's
 * message.
 */
const MAX_VALUE_LENGTH = 2_048;
const MAX_USER_VALUE_LENGTH = 200;

export class TemplateError extends Error {
  /** Offset of the wrong tag in the template. */
  readonly offset: number;

  constructor(message: string, offset: number) {
    super(message);
    this.offset = offset;
  }
}

export function parseTemplate(source: string): TemplateNode[] {
  type Frame = {
    nodes: TemplateNode[];
    condition?: { path: string[]; negated: boolean; offset: number; when?: TemplateNode[] };
  };
  const stack: Frame[] = [{ nodes: [] }];
  let position = 0;
  const top = (): Frame => {
    const frame = stack.at(-1);
    if (!frame) throw new TemplateError('{{ end }} without {{ if }}', position);
    return frame;
  };
  for (const match of source.matchAll(TAG)) {
    if (match.index > position) top().nodes.push({ kind: 'text', text: source.slice(position, match.index) });
    position = match.index + match[0].length;
    const tag = match[1] ?? '';
    const condition = /^if\s+(not\s+)?(\.\S+)$/.exec(tag);
    if (condition) {
      stack.push({
        nodes: [],
        condition: {
          path: parsePath(condition[2] ?? '', match.index),
          negated: condition[1] !== undefined,
          offset: match.index,
        },
      });
    } else if (tag === 'else') {
      const frame = top();
      if (!frame.condition || frame.condition.when)
        throw new TemplateError('{{ else }} without {{ if }}', match.index);
      frame.condition.when = frame.nodes;
      frame.nodes = [];
    } else if (tag === 'end') {
      const frame = stack.pop();
      if (!frame?.condition) throw new TemplateError('{{ end }} without {{ if }}', match.index);
      const { path, negated, when } = frame.condition;
      const [first, second] = when ? [when, frame.nodes] : [frame.nodes, []];
      top().nodes.push({ kind: 'if', path, negated, when: first, otherwise: second });
    } else if (!/^\/\*.*\*\/$/s.test(tag)) {
      top().nodes.push({ kind: 'value', path: parsePath(tag, match.index) });
    }
  }
  const open = stack.at(-1)?.condition;
  if (open) throw new TemplateError('{{ if }} without {{ end }}', open.offset);
  if (position < source.length) top().nodes.push({ kind: 'text', text: source.slice(position) });
  return top().nodes;
}

/** How values are written: escaped for HTML, unchanged, or on one line for a header. */
export type Escaping = 'html' | 'text' | 'header';

export function renderTemplate(
  nodes: readonly TemplateNode[],
  values: TemplateValues,
  escaping: Escaping,
): string {
  return nodes
    .map((node) => {
      switch (node.kind) {
        case 'text':
          return node.text;
        case 'value':
          return escape(shown(lookup(values, node.path), node.path), escaping);
        case 'if':
          return renderTemplate(
            isTruthy(lookup(values, node.path)) !== node.negated ? node.when : node.otherwise,
            values,
            escaping,
          );
      }
      return '';
    })
    .join('');
}

/** Returns whether a body has HTML tags. Otherwise it is plain text. */
export function looksLikeHtml(source: string): boolean {
  return /<[a-z!/][^>]*>/i.test(source);
}

/** Returns the text of an HTML mail, for mail programs that do not show HTML. */
export function toPlainText(html: string): string {
  return html
    .replaceAll(/<(head|style|script)\b.*?<\/\1>/gis, '')
    .replaceAll(/<a\b[^>]*\bhref="([^"]*)"[^>]*>(.*?)<\/a>/gis, '$2: $1')
    .replaceAll(/<(?:br|\/p|\/h\d|\/div|\/tr)\b[^>]*>/gi, '\n')
    .replaceAll(/<[^>]*>/g, '')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&')
    .replaceAll(/[ \t]+/g, ' ')
    .replaceAll(/\s*\n\s*/g, '\n')
    .trim();
}

function parsePath(tag: string, offset: number): string[] {
  const match = PATH.exec(tag);
  if (!match?.[1])
    throw new TemplateError(`{{ ${tag} }} is neither a value like {{ .Email }} nor if, else, end`, offset);
  return match[1].split('.');
}

function lookup(values: TemplateValues, path: readonly string[]): unknown {
  let current: unknown = values;
  for (const key of path) {
    if (!isJsonObject(current) || !Object.hasOwn(current, key)) return undefined;
    current = (current satisfies JsonObject)[key];
  }
  return current;
}

function shown(value: unknown, path: readonly string[]): string {
  const text =
    typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
      ? String(value)
      : isJsonObject(value) || Array.isArray(value)
        ? JSON.stringify(value)
        : '';
  // User metadata stays on one line: in a plain-text mail, its line breaks could imitate paragraphs of the
  // template.
  if (path[0] === 'Data')
    return text
      .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]+/gu, ' ')
      .slice(0, MAX_USER_VALUE_LENGTH);
  return text.slice(0, MAX_VALUE_LENGTH);
}

function isTruthy(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  if (isJsonObject(value)) return Object.keys(value).length > 0;
  return Boolean(value);
}

function escape(text: string, escaping: Escaping): string {
  if (escaping === 'text') return text;
  // oxlint-disable-next-line no-control-regex
  if (escaping === 'header') return text.replaceAll(/[\u0000-\u001f\u007f]+/g, ' ');
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;');
}
