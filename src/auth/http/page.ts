// The layout of auth's browser pages. They contain no script, and cannot be framed or cached.
import type { Answer, AuthRequest } from './request.ts';

const LANGUAGES = ['en', 'de', 'fr', 'es'] as const;
export type Language = (typeof LANGUAGES)[number];

export function chooseLanguage(request: AuthRequest): Language {
  const requested = (request.header('accept-language') ?? '')
    .split(',')
    .map((tag) => tag.trim().slice(0, 2).toLowerCase());
  for (const tag of requested) {
    const known = LANGUAGES.find((language) => language === tag);
    if (known) return known;
  }
  return 'en';
}

/** Returns the page. `parts` must be HTML. */
export function htmlPage(language: Language, title: string, parts: readonly string[]): Answer {
  return {
    status: 200,
    headers: {
      'content-security-policy':
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'",
      'referrer-policy': 'no-referrer',
      'x-frame-options': 'DENY',
      'x-robots-tag': 'noindex, nofollow',
      vary: 'Accept, Accept-Language',
    },
    html: `<!doctype html>
<html lang="${language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<style>
:root{color-scheme:light dark}
body{font-family:system-ui,sans-serif;display:grid;place-items:center;min-height:90vh;margin:0;text-align:center}
main{max-width:36rem;padding:0 1rem;overflow-wrap:anywhere}
button{font:inherit;font-weight:600;padding:12px 28px;border:0;border-radius:8px;background:#1f2937;color:#fff;cursor:pointer}
button:focus-visible{outline:3px solid #60a5fa;outline-offset:2px}
button+button{background:transparent;color:inherit;border:1px solid #6b7280;margin:8px 0 0 8px}
ul{display:inline-block;text-align:left}
@media (prefers-color-scheme:dark){button{background:#e5e7eb;color:#111827}}
</style>
</head>
<body>
<main>
<h1>${title}</h1>
${parts.join('\n')}
</main>
</body>
</html>`,
  };
}

export function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
