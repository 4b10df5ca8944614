// Composes the MIME text of a mail, for providers that accept one. The library encodes addresses and headers, so CR and
// LF never reach a header.
import type { Delivery } from './transport.ts';

export async function composeMime({ from, mail, idempotencyKey }: Delivery): Promise<Buffer> {
  const { default: MailComposer } = await import('nodemailer/lib/mail-composer/index.js');
  const composer = new MailComposer({
    from,
    to: { name: '', address: mail.to },
    subject: mail.subject,
    text: mail.text,
    ...(mail.html === undefined ? {} : { html: mail.html }),
    headers: { 'X-Entity-Ref-ID': idempotencyKey, 'Auto-Submitted': 'auto-generated' },
  });
  return await composer.compile().build();
}
