// The pages of docs/ as a site. The order is that of docs/index.md; a link that leads nowhere ends the build.
//
//   SITE_URL         where the site will be, for its sitemap
//   REPOSITORY_URL   where the code is, such as https://forge.example.com/svc/blob/main; without it, links to code are text
import { readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitepress';
import { addKeyAnchors, indexKeys } from './keys.js';
import { pagesOf, putTogether } from './pages.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const DOCS = join(ROOT, 'docs');
const { SITE_URL, REPOSITORY_URL } = process.env;

const pages = new Set(pagesOf(DOCS));
putTogether(DOCS, join(ROOT, 'site/pages'), { live: process.argv.includes('dev') });

export default defineConfig({
  title: 'svc',
  description: 'One file, svc.yaml, becomes a whole backend.',
  lang: 'en',
  srcDir: 'pages',
  cleanUrls: true,
  // The addresses of a program on the reader's own machine.
  ignoreDeadLinks: 'localhostLinks',
  ...(SITE_URL && { sitemap: { hostname: SITE_URL } }),
  themeConfig: {
    outline: [2, 3],
    search: { provider: 'local', options: { _render: renderForSearch } },
    sidebar: sidebarOf(readFileSync(join(DOCS, 'index.md'), 'utf8')),
    ...(REPOSITORY_URL && { socialLinks: [{ icon: 'git', link: REPOSITORY_URL }] }),
  },
  markdown: {
    // `<name>` in a sentence is text, not an element.
    html: false,
    config(markdown) {
      markdown.core.ruler.after('block', 'comments', dropComments);
      markdown.core.ruler.after('block', 'folds', renderFolds);
      markdown.core.ruler.after('inline', 'key-anchors', addKeyAnchors);
      markdown.core.ruler.after('inline', 'code-links', (state) => leadToCode(state));
      keepBraces(markdown);
    },
  },
});

/** A group for each heading, an item for each link in the list below it. */
function sidebarOf(text) {
  return text
    .split(/^## /m)
    .slice(1)
    .map((part) => ({
      text: part.split('\n', 1)[0],
      collapsed: false,
      items: [...part.matchAll(/^- \[(.+?)\]\((.+?)\.md\)/gm)].map(([, title, page]) => ({
        text: title,
        link: `/${page}`,
      })),
    }));
}

/** Comments of a page, which would be text where HTML is. */
function dropComments(state) {
  state.tokens = state.tokens.filter((token, index, all) => {
    const inline = [token, all[index + 1], all[index - 1]].find((one) => one?.type === 'inline');
    const isParagraph = token.type === 'inline' || token.type.startsWith('paragraph_');
    return !(isParagraph && inline && /^<!--.*-->$/s.test(inline.content));
  });
}

/** Renders `<details>` with its summary, the only HTML of the pages. */
function renderFolds(state) {
  const isFold = (token) =>
    token?.type === 'inline' && /^(<details>\n<summary>[\w ]+<\/summary>|<\/details>)$/.test(token.content);
  state.tokens = state.tokens.flatMap((token, index, all) => {
    if (token.type === 'paragraph_open' && isFold(all[index + 1])) return [];
    if (token.type === 'paragraph_close' && isFold(all[index - 1])) return [];
    if (!isFold(token)) return [token];
    const block = new state.Token('html_block', '', 0);
    block.content = token.content.replace('<details>', '<details class="details custom-block">');
    return [block];
  });
}

/**
 * Lets the search find each key of the configuration, and each page by the search words of its front matter, which are
 * added below its title.
 */
function renderForSearch(text, env, markdown) {
  const html = markdown.render(text, env);
  const indexed = env.relativePath === 'configuration.md' ? indexKeys(html) : html;
  const words = env.frontmatter?.search ?? [];
  return words.length === 0
    ? indexed
    : indexed.replace('</h1>', `</h1><p>${markdown.utils.escapeHtml(words.join(', '))}</p>`);
}

/** Links that leave the pages lead to the repository; without one only their text stays. */
function leadToCode(state) {
  const from = dirname(join(DOCS, state.env.relativePath ?? ''));
  for (const { children } of state.tokens)
    for (const [index, token] of (children ?? []).entries()) {
      const href = token.type === 'link_open' ? token.attrGet('href') : null;
      if (href === null || /^(?:[a-z]+:|#|\/)/i.test(href)) continue;
      const target = resolve(from, href.split('#')[0]);
      if (target.startsWith(join(DOCS, 'errors', '/'))) continue;
      if (!relative(DOCS, target).startsWith('..') && pages.has(relative(DOCS, target).replaceAll('\\', '/')))
        continue;
      // A page that is missing is left to the check of the links.
      if (!relative(DOCS, target).startsWith('..') && !relative(DOCS, target).startsWith('decisions'))
        continue;
      if (REPOSITORY_URL) token.attrSet('href', `${REPOSITORY_URL}/${relative(ROOT, target)}`);
      else unlink(children, index);
    }
}

function unlink(children, at) {
  const end = children.findIndex((token, index) => index > at && token.type === 'link_close');
  for (const token of [children[at], children[end]]) {
    token.type = 'text';
    token.tag = '';
    token.attrs = null;
    token.nesting = 0;
    token.content = '';
  }
}

/** `{{ … }}` in code is shown, not computed. */
function keepBraces(markdown) {
  const render = markdown.renderer.rules.code_inline;
  markdown.renderer.rules.code_inline = (tokens, index, ...rest) => {
    tokens[index].attrSet('v-pre', '');
    return render(tokens, index, ...rest);
  };
}
