// Anchors of the keys of svc.yaml in the tables of configuration.md.

const ROW = /<tr>\s*<td id="([^"]+)">(.+?)<\/td>(.+?)<\/tr>/gs;

/** Gives the row of `tables.<name>.fields[].type` the anchor `tables.fields.type`. Sections have one already. */
export function addKeyAnchors(state) {
  if (state.env.relativePath !== 'configuration.md') return;
  for (const [index, token] of state.tokens.entries()) {
    const [first, second] = state.tokens[index + 1]?.children ?? [];
    const isFirstCell = token.type === 'td_open' && state.tokens[index - 1].type === 'tr_open';
    if (!isFirstCell || first?.type !== 'code_inline' || second) continue;
    const anchor = first.content.replaceAll('.<name>', '').replaceAll('[]', '');
    if (anchor.includes('.')) token.attrSet('id', anchor);
  }
}

/** Turns the row of each key into a section of the search index, after the text of the section that contains it. */
export function indexKeys(html) {
  return html
    .split(/(?=<h2 )/)
    .map(indexSection)
    .join('');
}

function indexSection(html) {
  const keys = [...html.matchAll(ROW)].map(
    ([, anchor, key, meaning]) => `<h3>${key}<a href="#${anchor}"></a></h3>${meaning}`,
  );
  return html.replaceAll(ROW, '') + keys.join('');
}
