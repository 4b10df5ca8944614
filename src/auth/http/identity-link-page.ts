// The page that asks before an identity is linked, if this browser may not be the one that began the flow. It names
// both accounts, so that a person who opens another person's link sees an account that is not theirs.
import { htmlPage, escapeHtml, chooseLanguage, type Language } from './page.ts';
import type { Answer, AuthRequest } from './request.ts';

type Words = {
  readonly title: string;
  readonly sentence: (provider: string, identity: string, account: string) => string;
  readonly unnamed: string;
  readonly warning: string;
  readonly button: string;
};

const WORDS: Readonly<Record<Language, Words>> = {
  en: {
    title: 'Connect this sign-in?',
    sentence: (provider, identity, account) =>
      `Your ${provider} account ${identity} will be able to sign in to the account ${account}.`,
    unnamed: 'without an address',
    warning: 'If that account is not yours, or you did not just ask for this, close this page.',
    button: 'Connect',
  },
  de: {
    title: 'Diese Anmeldung verbinden?',
    sentence: (provider, identity, account) =>
      `Mit dem ${provider}-Konto ${identity} kannst du dich dann im Konto ${account} anmelden.`,
    unnamed: 'ohne Adresse',
    warning:
      'Wenn dieses Konto nicht dir gehört oder du das nicht gerade angefordert hast, schließe diese Seite.',
    button: 'Verbinden',
  },
  fr: {
    title: 'Associer cette connexion ?',
    sentence: (provider, identity, account) =>
      `Le compte ${provider} ${identity} permettra de se connecter au compte ${account}.`,
    unnamed: 'sans adresse',
    warning: 'Si ce compte n’est pas le vôtre, ou si vous ne venez pas de le demander, fermez cette page.',
    button: 'Associer',
  },
  es: {
    title: '¿Vincular este acceso?',
    sentence: (provider, identity, account) =>
      `Con la cuenta de ${provider} ${identity} podrás entrar en la cuenta ${account}.`,
    unnamed: 'sin dirección',
    warning: 'Si esa cuenta no es tuya, o no acabas de pedirlo, cierra esta página.',
    button: 'Vincular',
  },
};

export type LinkQuestion = {
  readonly provider: string;
  readonly identity: string;
  /** Address of the account, or undefined if it has none. */
  readonly account: string | undefined;
  readonly code: string;
  readonly cookie: string;
};

export function linkPage(request: AuthRequest, question: LinkQuestion): Answer {
  const language = chooseLanguage(request);
  const { title, sentence, unnamed, warning, button } = WORDS[language];
  const strong = (text: string): string => `<strong>${escapeHtml(text)}</strong>`;
  const { provider, identity, account, code, cookie } = question;
  const named = account === undefined ? unnamed : strong(account);
  const action = `${new URL(request.authUrl).pathname}/user/identities/confirm`;
  const page = htmlPage(language, title, [
    `<p>${sentence(strong(provider), strong(identity), named)}</p>`,
    `<p>${warning}</p>`,
    `<form method="post" action="${escapeHtml(action)}"><input type="hidden" name="code" ` +
      `value="${escapeHtml(code)}"><button type="submit">${button}</button></form>`,
  ]);
  return { ...page, headers: { ...page.headers, 'set-cookie': cookie } };
}
