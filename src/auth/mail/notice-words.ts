// The default texts of the notices, by language.
import type { NoticeKind } from '../../config/schema/names.ts';

type NoticeText = { readonly subject: string; readonly sentence: string };
type NoticeWords = {
  /** Time and device of the change. */
  readonly when: string;
  readonly texts: Readonly<Record<NoticeKind, NoticeText>>;
};

export const NOTICE_WORDS: Readonly<Record<'en' | 'de', NoticeWords>> = {
  en: {
    when:
      '{{ .Time }}{{ if .Device }}, {{ .Device }}{{ end }}. ' +
      'If this was not you, reset your password and contact the operator of {{ .SiteURL }}.',
    texts: {
      password_changed: {
        subject: 'Your password was changed',
        sentence: 'The password of the account {{ .Email }} was changed.',
      },
      email_changed: {
        subject: 'Your email address was changed',
        sentence: 'The address of your account was changed from {{ .OldEmail }} to {{ .Email }}.',
      },
      identity_linked: {
        subject: 'A sign-in was added',
        sentence: '{{ .Provider }} can now sign in to the account {{ .Email }}.',
      },
      identity_unlinked: {
        subject: 'A sign-in was removed',
        sentence: '{{ .Provider }} can no longer sign in to the account {{ .Email }}.',
      },
      mfa_factor_enrolled: {
        subject: 'A second factor was added',
        sentence: 'A second factor ({{ .FactorType }}) was added to the account {{ .Email }}.',
      },
      mfa_factor_unenrolled: {
        subject: 'A second factor was removed',
        sentence: 'A second factor ({{ .FactorType }}) was removed from the account {{ .Email }}.',
      },
      credentials_removed: {
        subject: 'Earlier credentials were removed',
        sentence:
          '{{ if .PasswordRemoved }}The password set before you confirmed {{ .Email }} was removed. ' +
          'Use “forgot password” to choose a new one.{{ else }}A sign-in that was added ' +
          'before you confirmed {{ .Email }} was removed.{{ end }}',
      },
      guarded_sign_in: {
        subject: 'Sign-in without the second factor',
        sentence:
          'A person with access to this mailbox signed in to the account {{ .Email }}. ' +
          'The account stays closed until its second factor is verified. ' +
          'If you do not have this factor, contact the operator.',
      },
    },
  },
  de: {
    when:
      '{{ .Time }}{{ if .Device }}, {{ .Device }}{{ end }}. ' +
      'Wenn du das nicht warst, setze dein Passwort zurück ' +
      'und wende dich an den Betreiber von {{ .SiteURL }}.',
    texts: {
      password_changed: {
        subject: 'Dein Passwort wurde geändert',
        sentence: 'Das Passwort des Kontos {{ .Email }} wurde geändert.',
      },
      email_changed: {
        subject: 'Deine E-Mail-Adresse wurde geändert',
        sentence: 'Die Adresse deines Kontos wurde von {{ .OldEmail }} zu {{ .Email }} geändert.',
      },
      identity_linked: {
        subject: 'Eine Anmeldung wurde hinzugefügt',
        sentence: 'Mit {{ .Provider }} kann man sich jetzt im Konto {{ .Email }} anmelden.',
      },
      identity_unlinked: {
        subject: 'Eine Anmeldung wurde entfernt',
        sentence: 'Mit {{ .Provider }} kann man sich nicht mehr im Konto {{ .Email }} anmelden.',
      },
      mfa_factor_enrolled: {
        subject: 'Ein zweiter Faktor wurde hinzugefügt',
        sentence: 'Dem Konto {{ .Email }} wurde ein zweiter Faktor ({{ .FactorType }}) hinzugefügt.',
      },
      mfa_factor_unenrolled: {
        subject: 'Ein zweiter Faktor wurde entfernt',
        sentence: 'Vom Konto {{ .Email }} wurde ein zweiter Faktor ({{ .FactorType }}) entfernt.',
      },
      credentials_removed: {
        subject: 'Frühere Zugangsdaten wurden entfernt',
        sentence:
          '{{ if .PasswordRemoved }}Das Passwort, das vor der Bestätigung von {{ .Email }} gesetzt wurde, ' +
          'wurde entfernt. Wähle mit „Passwort vergessen“ ein neues.{{ else }}Eine Anmeldung, ' +
          'die vor der Bestätigung von {{ .Email }} hinzugefügt wurde, wurde entfernt.{{ end }}',
      },
      guarded_sign_in: {
        subject: 'Anmeldung ohne zweiten Faktor',
        sentence:
          'Jemand mit Zugriff auf dieses Postfach hat sich im Konto {{ .Email }} angemeldet. ' +
          'Das Konto bleibt gesperrt, bis der zweite Faktor bestätigt ist. ' +
          'Wenn du diesen Faktor nicht hast, wende dich an den Betreiber.',
      },
    },
  },
};
