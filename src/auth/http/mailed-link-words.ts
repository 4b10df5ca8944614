// The texts of the page that a mailed link opens. Arguments are HTML.
import type { Language } from './page.ts';

type Words = {
  readonly continue: string;
  /** Shown when the form of the page is older than ten minutes. */
  readonly expired: string;
  readonly plain: { readonly title: string; readonly sentence: string };
  readonly password: {
    readonly sentence: (date: string) => string;
    readonly remove: string;
    readonly keep: string;
  };
  readonly emailChange: {
    readonly title: string;
    readonly sentence: (email: string, created: string) => string;
  };
  readonly confirm: {
    readonly title: string;
    readonly sentence: (email: string, site: string, date: string) => string;
    readonly contains: string;
    readonly password: string;
    readonly identity: (name: string) => string;
    readonly factor: string;
    readonly button: string;
    readonly keep: string;
    readonly remove: string;
    readonly disown: string;
  };
  readonly disowned: { readonly title: string; readonly cleared: string; readonly flagged: string };
};

export const MAILED_LINK_WORDS: Readonly<Record<Language, Words>> = {
  en: {
    continue: 'Continue',
    expired: 'This page was open for too long. Please choose again.',
    plain: { title: 'One more step', sentence: 'Press the button to continue.' },
    password: {
      sentence: (date) => `A password was set on ${date}, before this address was confirmed.`,
      remove: 'Continue and remove it',
      keep: 'It is mine: continue and keep it',
    },
    emailChange: {
      title: 'Confirm the new address',
      sentence: (email, created) =>
        `This changes the address of the account ${email}, which was created on ${created}.`,
    },
    confirm: {
      title: 'Confirm your email address',
      sentence: (email, site, date) => `On ${date}, a person signed up at ${site} with the address ${email}.`,
      contains: 'This sign-up set:',
      password: 'a password',
      identity: (name) => `sign-in with ${name}`,
      factor: 'a second factor',
      button: 'Confirm',
      keep: 'Confirm and keep them',
      remove: 'Confirm and remove them',
      disown: 'This was not me',
    },
    disowned: {
      title: 'Thank you',
      cleared: 'The credentials of that sign-up were removed. You can close this page.',
      flagged: 'The account was reported to an administrator. You can close this page.',
    },
  },
  de: {
    continue: 'Weiter',
    expired: 'Diese Seite war zu lange geöffnet. Bitte wähle noch einmal.',
    plain: { title: 'Noch ein Schritt', sentence: 'Klicke auf „Weiter“, um fortzufahren.' },
    password: {
      sentence: (date) => `Am ${date} wurde ein Passwort gesetzt, bevor diese Adresse bestätigt war.`,
      remove: 'Weiter und Passwort entfernen',
      keep: 'Es ist meins: weiter und behalten',
    },
    emailChange: {
      title: 'Bestätige die neue Adresse',
      sentence: (email, created) =>
        `Damit änderst du die Adresse des Kontos ${email}, das am ${created} angelegt wurde.`,
    },
    confirm: {
      title: 'Bestätige deine E-Mail-Adresse',
      sentence: (email, site, date) =>
        `Am ${date} hat sich jemand bei ${site} mit der Adresse ${email} registriert.`,
      contains: 'Dabei wurde gesetzt:',
      password: 'ein Passwort',
      identity: (name) => `Anmeldung mit ${name}`,
      factor: 'ein zweiter Faktor',
      button: 'Bestätigen',
      keep: 'Bestätigen und behalten',
      remove: 'Bestätigen und entfernen',
      disown: 'Das war ich nicht',
    },
    disowned: {
      title: 'Danke',
      cleared: 'Die Zugangsdaten dieser Registrierung wurden entfernt. Du kannst diese Seite schließen.',
      flagged: 'Das Konto wurde einem Administrator gemeldet. Du kannst diese Seite schließen.',
    },
  },
  fr: {
    continue: 'Continuer',
    expired: 'Cette page est restée ouverte trop longtemps. Veuillez choisir à nouveau.',
    plain: { title: 'Encore une étape', sentence: 'Appuyez sur le bouton pour continuer.' },
    password: {
      sentence: (date) => `Un mot de passe a été défini le ${date}, avant la confirmation de cette adresse.`,
      remove: 'Continuer et le supprimer',
      keep: 'C’est le mien : continuer et le garder',
    },
    emailChange: {
      title: 'Confirmer la nouvelle adresse',
      sentence: (email, created) => `Ceci change l’adresse du compte ${email}, créé le ${created}.`,
    },
    confirm: {
      title: 'Confirmez votre adresse e-mail',
      sentence: (email, site, date) =>
        `Le ${date}, quelqu’un s’est inscrit sur ${site} avec l’adresse ${email}.`,
      contains: 'Cette inscription a défini :',
      password: 'un mot de passe',
      identity: (name) => `la connexion avec ${name}`,
      factor: 'un second facteur',
      button: 'Confirmer',
      keep: 'Confirmer et les garder',
      remove: 'Confirmer et les supprimer',
      disown: 'Ce n’était pas moi',
    },
    disowned: {
      title: 'Merci',
      cleared:
        'Les moyens de connexion de cette inscription ont été supprimés. Vous pouvez fermer cette page.',
      flagged: 'Le compte a été signalé à un administrateur. Vous pouvez fermer cette page.',
    },
  },
  es: {
    continue: 'Continuar',
    expired: 'Esta página estuvo abierta demasiado tiempo. Elige de nuevo.',
    plain: { title: 'Un paso más', sentence: 'Pulsa el botón para continuar.' },
    password: {
      sentence: (date) =>
        `El ${date} se estableció una contraseña, antes de que se confirmara esta dirección.`,
      remove: 'Continuar y eliminarla',
      keep: 'Es mía: continuar y conservarla',
    },
    emailChange: {
      title: 'Confirma la nueva dirección',
      sentence: (email, created) => `Esto cambia la dirección de la cuenta ${email}, creada el ${created}.`,
    },
    confirm: {
      title: 'Confirma tu dirección de correo',
      sentence: (email, site, date) => `El ${date} alguien se registró en ${site} con la dirección ${email}.`,
      contains: 'Ese registro estableció:',
      password: 'una contraseña',
      identity: (name) => `el acceso con ${name}`,
      factor: 'un segundo factor',
      button: 'Confirmar',
      keep: 'Confirmar y conservarlos',
      remove: 'Confirmar y eliminarlos',
      disown: 'No fui yo',
    },
    disowned: {
      title: 'Gracias',
      cleared: 'Se eliminaron los accesos de ese registro. Puedes cerrar esta página.',
      flagged: 'La cuenta se notificó a un administrador. Puedes cerrar esta página.',
    },
  },
};
