// The page a mailed link opens, with one button that posts the link back. It repeats nothing of the request (the form posts
// to its own address) and does not submit by itself: mail scanners press no buttons.
import { answersPage, languageOf, type Language } from './page.ts';
import type { Answer, AuthRequest } from './request.ts';

type Words = { readonly title: string; readonly sentence: string; readonly button: string };

const WORDS: Readonly<Record<Language, Words>> = {
  en: { title: 'One more step', sentence: 'Press the button to continue.', button: 'Continue' },
  de: { title: 'Noch ein Schritt', sentence: 'Klicke auf „Weiter“, um fortzufahren.', button: 'Weiter' },
  fr: { title: 'Encore une étape', sentence: 'Appuyez sur le bouton pour continuer.', button: 'Continuer' },
  es: { title: 'Un paso más', sentence: 'Pulsa el botón para continuar.', button: 'Continuar' },
};

export function confirmPage(request: AuthRequest): Answer {
  const language = languageOf(request);
  const { title, sentence, button } = WORDS[language];
  return answersPage(language, title, [
    `<p>${sentence}</p>`,
    `<form method="post"><button type="submit">${button}</button></form>`,
  ]);
}
