// The page a mailed link opens: one button that posts the link back. It repeats nothing of the request (the form
// posts to its own address), runs no script, and submits nothing by itself: a scanner that renders pages presses
// no buttons.
import type { Answer, AuthRequest } from './request.ts';

type Words = { readonly title: string; readonly sentence: string; readonly button: string };

const WORDS: Readonly<Record<string, Words>> = {
  en: { title: 'One more step', sentence: 'Press the button to continue.', button: 'Continue' },
  de: { title: 'Noch ein Schritt', sentence: 'Drücke den Knopf, um fortzufahren.', button: 'Weiter' },
  fr: { title: 'Encore une étape', sentence: 'Appuyez sur le bouton pour continuer.', button: 'Continuer' },
  es: { title: 'Un paso más', sentence: 'Pulsa el botón para continuar.', button: 'Continuar' },
};

export function confirmPage(request: AuthRequest): Answer {
  const language = preferred(request.header('accept-language') ?? '');
  const { title, sentence, button } = WORDS[language] ?? { title: '', sentence: '', button: 'OK' };
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
button{font:inherit;font-weight:600;padding:12px 28px;border:0;border-radius:8px;background:#1f2937;color:#fff;cursor:pointer}
button:focus-visible{outline:3px solid #60a5fa;outline-offset:2px}
@media (prefers-color-scheme:dark){button{background:#e5e7eb;color:#111827}}
</style>
</head>
<body>
<main>
<h1>${title}</h1>
<p>${sentence}</p>
<form method="post"><button type="submit">${button}</button></form>
</main>
</body>
</html>`,
  };
}

function preferred(acceptLanguage: string): string {
  const wanted = acceptLanguage.split(',').map((one) => one.trim().slice(0, 2).toLowerCase());
  return wanted.find((language) => Object.hasOwn(WORDS, language)) ?? 'en';
}
