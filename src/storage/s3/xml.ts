// As much XML as S3 needs: a writer, and a reader for the few small bodies clients send. The reader knows elements,
// text and the five named references; declarations, comments and entities are refused, so nothing can expand.
import { malformedXml } from './problem.ts';

export type XmlElement = {
  readonly name: string;
  readonly text: string;
  readonly children: readonly XmlElement[];
};

export function element(name: string, content: string | readonly XmlElement[]): XmlElement {
  return typeof content === 'string'
    ? { name, text: content, children: [] }
    : { name, text: '', children: content };
}

const NAMESPACE = 'http://s3.amazonaws.com/doc/2006-03-01/';

export function renderXml(root: XmlElement): string {
  const namespace = root.name === 'Error' ? '' : ` xmlns="${NAMESPACE}"`;
  return `<?xml version="1.0" encoding="UTF-8"?>\n${render(root, namespace)}`;
}

function render({ name, text, children }: XmlElement, attributes = ''): string {
  return `<${name}${attributes}>${escapeXml(text)}${children.map((child) => render(child)).join('')}</${name}>`;
}

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&apos;',
};

export function escapeXml(text: string): string {
  return (
    text
      // Control characters do not exist in XML 1.0, not even as references.
      // oxlint-disable-next-line no-control-regex
      .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, '\ufffd')
      .replace(/[&<>"']/g, (char) => ESCAPES[char] ?? char)
      .replaceAll('\r', '&#13;')
  );
}

const REFERENCES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };
const MAX_DEPTH = 8;
const TAG = /<(\/?)([A-Za-z_][\w.-]*)((?:\s+[A-Za-z_][\w.:-]*\s*=\s*(?:"[^"<]*"|'[^'<]*'))*)\s*(\/?)>/y;

type Open = { readonly name: string; text: string; readonly children: XmlElement[] };

export function parseXml(source: string): XmlElement {
  const text = source.replace(/^\ufeff?\s*(?:<\?xml[^?<>]*\?>)?\s*/, '').trimEnd();
  const stack: Open[] = [];
  let at = 0;
  while (at < text.length) {
    const next = text.indexOf('<', at);
    if (next < 0) throw malformedXml();
    const parent = stack.at(-1);
    if (next > at) {
      if (!parent) throw malformedXml();
      parent.text += readText(text.slice(at, next));
    }
    TAG.lastIndex = next;
    const tag = TAG.exec(text);
    if (!tag) throw malformedXml();
    at = TAG.lastIndex;
    const [, closing, name = '', attributes, empty] = tag;
    if (closing) {
      const done = stack.pop();
      if (!done || done.name !== name || attributes !== '' || empty) throw malformedXml();
      const above = stack.at(-1);
      if (!above) return at === text.length ? done : refuse();
      above.children.push(done);
      continue;
    }
    const opened: Open = { name, text: '', children: [] };
    if (!empty) {
      stack.push(opened);
      if (stack.length > MAX_DEPTH) throw malformedXml();
    } else if (parent) parent.children.push(opened);
    else return at === text.length ? opened : refuse();
  }
  throw malformedXml();
}

function refuse(): never {
  throw malformedXml();
}

function readText(text: string): string {
  return text.replace(/&([^;&]*)(;?)/g, (_all, name: string, end: string) => {
    const number = /^#(?:x([\da-fA-F]{1,6})|(\d{1,7}))$/.exec(name);
    const code = number ? Number.parseInt(number[1] ?? number[2] ?? '', number[1] ? 16 : 10) : -1;
    const char = code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : REFERENCES[name];
    if (end === '' || char === undefined) throw malformedXml();
    return char;
  });
}

export function childText({ children }: XmlElement, name: string): string | undefined {
  return children.find((child) => child.name === name)?.text;
}
