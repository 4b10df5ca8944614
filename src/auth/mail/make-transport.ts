// Creates the transport of a mail provider.
import type { MailSettings } from '../settings.ts';
import { resendTransport } from './resend.ts';
import { sesTransport } from './ses.ts';
import { smtpTransport } from './smtp.ts';
import type { MailTransport } from './transport.ts';

export function makeTransport(settings: MailSettings): MailTransport {
  switch (settings.type) {
    case 'resend':
      return resendTransport(settings.apiKey, settings.baseUrl);
    case 'ses':
      return sesTransport(settings);
    case 'smtp':
      return smtpTransport(settings.url);
    case 'catch':
      throw new Error('captured mail is not delivered');
  }
}
