// The texts the mails of auth have until the file says otherwise. One entry per language; a user's own `locale`
// in user_metadata picks it.
import type { MailKind } from '../../config/schema/names.ts';

type Words = {
  readonly subject: string;
  readonly heading: string;
  readonly sentence: string;
  /** Undefined where there is no link. */
  readonly button?: string;
  readonly orCode: string;
  readonly ignore: string;
};

const CODE = '{{ .Token }}';

const ENGLISH_IGNORE = 'If you did not ask for this, you can ignore this mail.';
const ENGLISH_CODE = 'Or type this code:';
const GERMAN_IGNORE = 'Wenn du das nicht angefordert hast, kannst du diese Mail ignorieren.';
const GERMAN_CODE = 'Oder gib diesen Code ein:';

const WORDS: Readonly<Record<string, Readonly<Record<MailKind, Words>>>> = {
  en: {
    confirm: {
      subject: 'Confirm your email address',
      heading: 'Confirm your email address',
      sentence: 'Open the link to confirm {{ .Email }} and finish signing up.',
      button: 'Confirm email address',
      orCode: ENGLISH_CODE,
      ignore: ENGLISH_IGNORE,
    },
    magic_link: {
      subject: 'Your sign-in link',
      heading: 'Sign in',
      sentence: 'Open the link to sign in as {{ .Email }}.',
      button: 'Sign in',
      orCode: ENGLISH_CODE,
      ignore: ENGLISH_IGNORE,
    },
    recovery: {
      subject: 'Reset your password',
      heading: 'Reset your password',
      sentence: 'Open the link to choose a new password for {{ .Email }}.',
      button: 'Reset password',
      orCode: ENGLISH_CODE,
      ignore: ENGLISH_IGNORE,
    },
    invite: {
      subject: 'You have been invited',
      heading: 'You have been invited',
      sentence: 'Open the link to accept the invitation for {{ .Email }}.',
      button: 'Accept the invitation',
      orCode: ENGLISH_CODE,
      ignore: ENGLISH_IGNORE,
    },
    email_change: {
      subject: 'Confirm your new email address',
      heading: 'Change your email address',
      sentence: 'Open the link to confirm the change from {{ .Email }} to {{ .NewEmail }}.',
      button: 'Confirm the change',
      orCode: ENGLISH_CODE,
      ignore: ENGLISH_IGNORE,
    },
    reauthentication: {
      subject: `${CODE} is your verification code`,
      heading: 'Verify it is you',
      sentence: 'Type this code to go on:',
      orCode: '',
      ignore: ENGLISH_IGNORE,
    },
  },
  de: {
    confirm: {
      subject: 'Bestätige deine E-Mail-Adresse',
      heading: 'Bestätige deine E-Mail-Adresse',
      sentence: 'Öffne den Link, um {{ .Email }} zu bestätigen und die Anmeldung abzuschließen.',
      button: 'E-Mail-Adresse bestätigen',
      orCode: GERMAN_CODE,
      ignore: GERMAN_IGNORE,
    },
    magic_link: {
      subject: 'Dein Anmeldelink',
      heading: 'Anmelden',
      sentence: 'Öffne den Link, um dich als {{ .Email }} anzumelden.',
      button: 'Anmelden',
      orCode: GERMAN_CODE,
      ignore: GERMAN_IGNORE,
    },
    recovery: {
      subject: 'Setze dein Passwort zurück',
      heading: 'Setze dein Passwort zurück',
      sentence: 'Öffne den Link, um ein neues Passwort für {{ .Email }} zu wählen.',
      button: 'Passwort zurücksetzen',
      orCode: GERMAN_CODE,
      ignore: GERMAN_IGNORE,
    },
    invite: {
      subject: 'Du wurdest eingeladen',
      heading: 'Du wurdest eingeladen',
      sentence: 'Öffne den Link, um die Einladung für {{ .Email }} anzunehmen.',
      button: 'Einladung annehmen',
      orCode: GERMAN_CODE,
      ignore: GERMAN_IGNORE,
    },
    email_change: {
      subject: 'Bestätige deine neue E-Mail-Adresse',
      heading: 'Ändere deine E-Mail-Adresse',
      sentence: 'Öffne den Link, um den Wechsel von {{ .Email }} zu {{ .NewEmail }} zu bestätigen.',
      button: 'Änderung bestätigen',
      orCode: GERMAN_CODE,
      ignore: GERMAN_IGNORE,
    },
    reauthentication: {
      subject: `${CODE} ist dein Bestätigungscode`,
      heading: 'Bestätige, dass du es bist',
      sentence: 'Gib diesen Code ein, um fortzufahren:',
      orCode: '',
      ignore: GERMAN_IGNORE,
    },
  },
};

const FALLBACK_LOCALE = 'en';

export type MailTexts = { readonly subject: string; readonly body: string };

export function defaultTexts(kind: MailKind, locale: unknown): MailTexts {
  const language = typeof locale === 'string' ? (locale.toLowerCase().split(/[-_]/)[0] ?? '') : '';
  const words = (Object.hasOwn(WORDS, language) ? WORDS[language] : undefined) ?? WORDS[FALLBACK_LOCALE];
  if (!words) throw new Error('there are no mail texts');
  return {
    subject: words[kind].subject,
    body: layout(words[kind], language in WORDS ? language : FALLBACK_LOCALE),
  };
}

function layout({ heading, sentence, button, orCode, ignore }: Words, language: string): string {
  const link =
    button === undefined
      ? ''
      : `<p style="margin:24px 0"><a href="{{ .ConfirmationURL }}" style="background:#1f2937;color:#ffffff;padding:12px 20px;border-radius:6px;text-decoration:none;display:inline-block">${button}</a></p>
<p>${orCode}</p>`;
  return `<!doctype html>
<html lang="${language}">
<head><meta charset="utf-8"><title>${heading}</title></head>
<body style="font-family:system-ui,sans-serif;line-height:1.5;color:#111827;max-width:480px;margin:0 auto;padding:24px">
<h1 style="font-size:20px">${heading}</h1>
<p>${sentence}</p>
${link}
<p style="font-size:28px;letter-spacing:6px;font-weight:600">${CODE}</p>
<p style="color:#6b7280;font-size:13px">${ignore}</p>
</body>
</html>`;
}
