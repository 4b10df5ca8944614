// Reads the outermost target list of a view from `pg_rewrite.ev_action`, the text form of its query tree
// (`nodeToString` in PostgreSQL). Entries of inner selects, arguments of aggregates and sort keys have the same form,
// so a text search is not enough and the nodes are parsed.

/** An output column that is a plain column of a relation; `table` is its oid, both columns are attribute numbers. */
export type ViewTarget = { readonly position: number; readonly table: number; readonly column: number };

/** Returns nothing for a set operation: its branches can have different origins. */
export function viewTargets(tree: string): ViewTarget[] {
  if (!tree.startsWith('({QUERY ')) return [];
  const query = nodeAt(tree, 1).fields;
  if (query.get('setOperations') !== '<>') return [];
  return readNodes(query.get('targetList') ?? '').flatMap(target);
}

function target(entry: Fields): ViewTarget[] {
  if (entry.get('resjunk') !== 'false') return [];
  const [position, table, column] = ['resno', 'resorigtbl', 'resorigcol'].map((name) =>
    Number(entry.get(name)),
  );
  return position && table && column ? [{ position, table, column }] : [];
}

type Fields = ReadonlyMap<string, string>;

type Node = { readonly fields: Fields; readonly end: number };

/** `{TYPE :field value :field value}`. A value is a word, a list, a node, or a datum such as `4 [ 1 0 0 0 ]`. */
function nodeAt(text: string, from: number): Node {
  const fields = new Map<string, string>();
  let at = skipSpaces(text, endOfValue(text, from + 1));
  while (at < text.length && text[at] !== '}') {
    const nameEnd = endOfValue(text, at);
    const name = text.slice(at + 1, nameEnd);
    // The first word belongs to the value even where it begins with a colon, as the name of a column may.
    const start = skipSpaces(text, nameEnd);
    at = endOfValue(text, start);
    fields.set(name, text.slice(start, at));
    at = skipSpaces(text, at);
    while (at < text.length && text[at] !== ':' && text[at] !== '}') {
      at = skipSpaces(text, endOfValue(text, at));
    }
  }
  return { fields, end: at + 1 };
}

/** The nodes of `({…} {…})`. */
function readNodes(list: string): Fields[] {
  const nodes: Fields[] = [];
  for (let at = skipSpaces(list, 1); list[at] === '{';) {
    const { fields, end } = nodeAt(list, at);
    nodes.push(fields);
    at = skipSpaces(list, end);
  }
  return nodes;
}

function skipSpaces(text: string, from: number): number {
  let at = from;
  while (text[at] === ' ' || text[at] === '\n') at++;
  return at;
}

const END_OF_WORD = /[\s(){}\\]/g;
const BRACKET = /[(){}\\]/g;

/** End of the word, list or node at `from`; always past it. A backslash escapes the next character inside words. */
function endOfValue(text: string, from: number): number {
  let depth = 0;
  let at = from;
  for (;;) {
    const next = depth === 0 ? END_OF_WORD : BRACKET;
    next.lastIndex = at;
    if (!next.test(text)) return text.length;
    at = next.lastIndex;
    const found = text[at - 1];
    if (found === '\\') at++;
    else if (found === '(' || found === '{') {
      if (depth === 0 && at - 1 > from) return at - 1;
      depth++;
    } else if (found === ')' || found === '}') {
      depth--;
      if (depth === 0) return at;
      if (depth < 0) return Math.max(at - 1, from + 1);
    } else return Math.max(at - 1, from + 1);
  }
}
