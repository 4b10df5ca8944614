// The effective configuration for people: all files and the overlay as one text, with masked secrets. Can also show the
// origin of each value.
import { isCollection, isNode, isPair, isScalar, isSeq, visit, type Document, type Node } from 'yaml';
import { isSecret, schemaAt } from '../schema/known-keys.ts';
import type { KeyPath } from '../mistakes/mistake.ts';
import { mergedDocument, type NamedText, type Origins } from './merged-text.ts';

export type PrintOptions = {
  /** Appends `# file:line` to each value. */
  readonly origins?: boolean | undefined;
  readonly showSecrets?: boolean | undefined;
};

export type PrintedText = {
  readonly text: string;
  /** Paths of masked values. */
  readonly masked: readonly KeyPath[];
};

/** `texts`: begins with svc.yaml. All texts have been read without mistakes. */
export function printedText(
  texts: readonly NamedText[],
  overlay: NamedText | undefined,
  { origins: withOrigins = false, showSecrets = false }: PrintOptions,
): PrintedText {
  const origins: Origins = new WeakMap();
  const document = mergedDocument(texts, overlay, origins);
  const masked = showSecrets ? [] : maskSecrets(document);
  const isAsWritten = texts.length === 1 && !overlay && !withOrigins && masked.length === 0;
  if (isAsWritten) return { text: texts[0]?.text ?? '', masked };
  if (withOrigins && isNode(document.contents)) nameOrigins(document.contents, origins);
  return { text: document.toString({ lineWidth: 0 }), masked };
}

/** A reference, so that svc rejects a file with masked values. */
const MASK = '${MASKED}';
/** Environment variables of code functions are classified by name, because their values have no schema. */
const SECRET_NAME = /key|passw|token|secret|credential/i;
const PASSWORD_IN_URL = /:\/\/[^\s:/@]*:[^\s@$]+@/;

function maskSecrets(document: Document): KeyPath[] {
  const masked: KeyPath[] = [];
  visit(document, {
    Scalar(key, node, above) {
      if (key === 'key' || node.value === null) return;
      const path = nodePath([...above, node]);
      const { value } = node;
      const isWritten = typeof value !== 'string' || !value.includes('${') || PASSWORD_IN_URL.test(value);
      if (!isWritten || !canBeSecret(path)) return;
      masked.push(path);
      node.value = MASK;
      node.type = 'QUOTE_DOUBLE';
      delete node.source;
    },
  });
  return masked;
}

function canBeSecret(path: KeyPath): boolean {
  if (path[0] === 'functions' && path[2] === 'env') return SECRET_NAME.test(String(path[3]));
  return isSecret(schemaAt(path));
}

/** `chain`: nodes from the document to the node. */
function nodePath(chain: readonly unknown[]): KeyPath {
  return chain.flatMap((node, depth): (string | number)[] => {
    if (isPair(node)) return [isScalar(node.key) ? String(node.key.value) : ''];
    return isSeq(node) ? [node.items.indexOf(chain[depth + 1])] : [];
  });
}

function nameOrigins(node: Node, origins: Origins): void {
  if (
    isCollection(node) &&
    !(node.flow === true && hasSingleOrigin(node, origins)) &&
    node.items.length > 0
  ) {
    delete node.flow;
    for (const item of node.items) {
      const value: unknown = isPair(item) ? item.value : item;
      if (isNode(value)) nameOrigins(value, origins);
    }
    return;
  }
  const origin = origins.get(node);
  if (origin !== undefined) node.comment = ` ${origin}`;
}

/** Keeps an inline collection on one line if all its values have the same origin. */
function hasSingleOrigin(node: Node, origins: Origins): boolean {
  const found = new Set<string | undefined>();
  visit(node, { Value: (_key, value) => void found.add(origins.get(value)) });
  return found.size === 1;
}
