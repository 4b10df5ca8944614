// The page that a mailed link opens, with buttons that post the link back. It contains nothing from the request: the
// form posts to its own URL. It does not submit itself, because mail scanners do not press buttons.
import { LINK_FORM_FIELD, signLinkForm } from './link-form.ts';
import { MAILED_LINK_WORDS } from './mailed-link-words.ts';
import { htmlPage, escapeHtml, chooseLanguage, type Language } from './page.ts';
import type { Answer, AuthRequest } from './request.ts';

export type LinkView =
  | { readonly kind: 'plain' }
  /** The confirmation mail of a sign-up. */
  | {
      readonly kind: 'confirm';
      readonly email: string;
      readonly site: string;
      readonly createdAt: Date;
      readonly hasPassword: boolean;
      readonly hasFactor: boolean;
      /** Provider and account name of each identity. */
      readonly identities: readonly string[];
      /** The owner decides whether the identities stay. */
      readonly asksToKeep: boolean;
    }
  /** Another mail, while the account has a password that was set before the address was proven. */
  | { readonly kind: 'password'; readonly setAt: Date }
  | { readonly kind: 'email change'; readonly email: string; readonly createdAt: Date };

/** Choice of the owner, made with a button. */
export type LinkChoice = 'keep' | 'disown';

export function readChoice({ isForm, body }: AuthRequest): LinkChoice | undefined {
  if (!isForm) return undefined;
  if (body.filled('disown') === '1') return 'disown';
  const isKept = body.filled('keep_password') === '1' || body.filled('keep_credentials') === '1';
  return isKept ? 'keep' : undefined;
}

/** `isExpired`: a form of this page was posted with an invalid or expired value, so the page asks again. */
export function mailedLinkPage(request: AuthRequest, view: LinkView, isExpired = false): Answer {
  const language = chooseLanguage(request);
  const { title, sentences, list = '', buttons } = pageContent(language, view);
  const notice = isExpired ? [MAILED_LINK_WORDS[language].expired] : [];
  const shown = buttons.map(({ label, field }) => {
    const name = field === undefined ? '' : ` name="${field}" value="1"`;
    return `<button type="submit"${name}>${label}</button>`;
  });
  const value = `<input type="hidden" name="${LINK_FORM_FIELD}" value="${signLinkForm(request)}">`;
  const page = htmlPage(language, title, [
    ...[...notice, ...sentences].map((sentence) => `<p>${sentence}</p>`),
    `${list}<form method="post">${value}${shown.join('')}</form>`,
  ]);
  return isExpired ? { ...page, status: 403 } : page;
}

type Button = { readonly label: string; readonly field?: string };

/** All texts are HTML. */
type Content = {
  readonly title: string;
  readonly sentences: readonly string[];
  readonly list?: string;
  readonly buttons: readonly Button[];
};

function pageContent(language: Language, view: LinkView): Content {
  const words = MAILED_LINK_WORDS[language];
  const date = (time: Date): string => strong(formatDate(language, time));
  switch (view.kind) {
    case 'plain':
      return {
        title: words.plain.title,
        sentences: [words.plain.sentence],
        buttons: [{ label: words.continue }],
      };
    case 'password':
      return {
        title: words.plain.title,
        sentences: [words.password.sentence(date(view.setAt))],
        buttons: [{ label: words.password.remove }, { label: words.password.keep, field: 'keep_password' }],
      };
    case 'email change':
      return {
        title: words.emailChange.title,
        sentences: [words.emailChange.sentence(strong(view.email), date(view.createdAt))],
        buttons: [{ label: words.continue }],
      };
    case 'confirm':
      return confirmContent(language, view);
  }
}

function confirmContent(language: Language, view: Extract<LinkView, { kind: 'confirm' }>): Content {
  const { confirm } = MAILED_LINK_WORDS[language];
  const { email, site, createdAt, hasPassword, hasFactor, identities, asksToKeep } = view;
  const facts = [
    ...(hasPassword ? [confirm.password] : []),
    ...identities.map((identity) => confirm.identity(escapeHtml(identity))),
    ...(hasFactor ? [confirm.factor] : []),
  ];
  const sentence = confirm.sentence(strong(email), strong(site), strong(formatDate(language, createdAt)));
  const confirming: readonly Button[] = asksToKeep
    ? [{ label: confirm.keep, field: 'keep_credentials' }, { label: confirm.remove }]
    : [{ label: confirm.button }];
  return {
    title: confirm.title,
    sentences: [sentence, ...(facts.length === 0 ? [] : [confirm.contains])],
    ...(facts.length === 0 ? {} : { list: `<ul>${facts.map((fact) => `<li>${fact}</li>`).join('')}</ul>` }),
    buttons: [...confirming, { label: confirm.disown, field: 'disown' }],
  };
}

/** Returns the page after "This was not me". */
export function disownedPage(request: AuthRequest, how: 'cleared' | 'flagged'): Answer {
  const language = chooseLanguage(request);
  const { title, cleared, flagged } = MAILED_LINK_WORDS[language].disowned;
  return htmlPage(language, title, [`<p>${how === 'cleared' ? cleared : flagged}</p>`]);
}

const strong = (text: string): string => `<strong>${escapeHtml(text)}</strong>`;

function formatDate(language: Language, time: Date): string {
  const locale = language === 'en' ? 'en-GB' : language;
  return new Intl.DateTimeFormat(locale, { dateStyle: 'long', timeZone: 'UTC' }).format(time);
}
