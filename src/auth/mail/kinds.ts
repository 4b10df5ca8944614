// The default texts of the mails, by language. The language is the user's `locale` in user_metadata, else English.
import { NOTICE_KINDS, type MailKind, type NoticeKind } from '../../config/schema/names.ts';
import { NOTICE_WORDS } from './notice-words.ts';

export type Language = 'en' | 'de';

/** `button` is undefined if the mail has no link. */
type Words = {
  readonly subject: string;
  readonly heading?: string;
  readonly sentence: string;
  readonly button?: string;
};

const CODE = '{{ .Token }}';

const COMMON: Readonly<Record<Language, { readonly orCode: string; readonly ignore: string }>> = {
  en: {
    orCode: 'Or enter this code:',
    ignore: 'If you did not ask for this, you can ignore this email.',
  },
  de: {
    orCode: 'Oder gib diesen Code ein:',
    ignore: 'Wenn du das nicht angefordert hast, kannst du diese E-Mail ignorieren.',
  },
};

const WORDS: Readonly<Record<Language, Readonly<Record<Exclude<MailKind, NoticeKind>, Words>>>> = {
  en: {
    confirm: {
      subject: 'Confirm your email address',
      sentence: 'Open the link to confirm {{ .Email }} and finish signing up.',
      button: 'Confirm email address',
    },
    magic_link: {
      subject: 'Your sign-in link',
      heading: 'Sign in',
      sentence: 'Open the link to sign in as {{ .Email }}.',
      button: 'Sign in',
    },
    recovery: {
      subject: 'Reset your password',
      sentence: 'Open the link to choose a new password for {{ .Email }}.',
      button: 'Reset password',
    },
    invite: {
      subject: 'You have been invited',
      sentence: 'Open the link to accept the invitation for {{ .Email }}.',
      button: 'Accept the invitation',
    },
    email_change: {
      subject: 'Confirm your new email address',
      heading: 'Change your email address',
      sentence: 'Open the link to confirm the change from {{ .Email }} to {{ .NewEmail }}.',
      button: 'Confirm the change',
    },
    reauthentication: {
      subject: `${CODE} is your verification code`,
      heading: 'Confirm that it is you',
      sentence: 'Enter this code to continue:',
    },
  },
  de: {
    confirm: {
      subject: 'Bestätige deine E-Mail-Adresse',
      sentence: 'Öffne den Link, um {{ .Email }} zu bestätigen und die Registrierung abzuschließen.',
      button: 'E-Mail-Adresse bestätigen',
    },
    magic_link: {
      subject: 'Dein Anmeldelink',
      heading: 'Anmelden',
      sentence: 'Öffne den Link, um dich als {{ .Email }} anzumelden.',
      button: 'Anmelden',
    },
    recovery: {
      subject: 'Setze dein Passwort zurück',
      sentence: 'Öffne den Link, um ein neues Passwort für {{ .Email }} zu wählen.',
      button: 'Passwort zurücksetzen',
    },
    invite: {
      subject: 'Du wurdest eingeladen',
      sentence: 'Öffne den Link, um die Einladung für {{ .Email }} anzunehmen.',
      button: 'Einladung annehmen',
    },
    email_change: {
      subject: 'Bestätige deine neue E-Mail-Adresse',
      heading: 'Ändere deine E-Mail-Adresse',
      sentence: 'Öffne den Link, um den Wechsel von {{ .Email }} zu {{ .NewEmail }} zu bestätigen.',
      button: 'Änderung bestätigen',
    },
    reauthentication: {
      subject: `${CODE} ist dein Bestätigungscode`,
      heading: 'Bestätige, dass du es bist',
      sentence: 'Gib diesen Code ein, um fortzufahren:',
    },
  },
};

export type MailTexts = { readonly subject: string; readonly body: string };

export function defaultTexts(kind: MailKind, locale: unknown): MailTexts {
  const requested = typeof locale === 'string' ? locale.toLowerCase().split(/[-_]/)[0] : undefined;
  const language = requested === 'de' ? 'de' : 'en';
  if (isNotice(kind)) {
    const { subject, sentence } = NOTICE_WORDS[language].texts[kind];
    return {
      subject,
      body: page(language, subject, [`<p>${sentence}</p>`, small(NOTICE_WORDS[language].when)]),
    };
  }
  const words = WORDS[language][kind];
  return { subject: words.subject, body: layout(words, language) };
}

const isNotice = (kind: MailKind): kind is NoticeKind => NOTICE_KINDS.some((notice) => notice === kind);

function layout({ subject, heading = subject, sentence, button }: Words, language: Language): string {
  const { orCode, ignore } = COMMON[language];
  const link =
    button === undefined
      ? ''
      : `<p style="margin:24px 0"><a href="{{ .ConfirmationURL }}" style="background:#1f2937;color:#ffffff;padding:12px 20px;border-radius:6px;text-decoration:none;display:inline-block">${button}</a></p>
<p>${orCode}</p>`;
  const code = `<p style="font-size:28px;letter-spacing:6px;font-weight:600">${CODE}</p>`;
  return page(language, heading, [`<p>${sentence}</p>`, link, code, small(ignore)]);
}

const small = (text: string): string => `<p style="color:#6b7280;font-size:13px">${text}</p>`;

function page(language: Language, heading: string, parts: readonly string[]): string {
  return `<!doctype html>
<html lang="${language}">
<head><meta charset="utf-8"><title>${heading}</title></head>
<body style="font-family:system-ui,sans-serif;line-height:1.5;color:#111827;max-width:480px;margin:0 auto;padding:24px">
<h1 style="font-size:20px">${heading}</h1>
${parts.join('\n')}
</body>
</html>`;
}
