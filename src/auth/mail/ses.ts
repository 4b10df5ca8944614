// Sends mail through Amazon SES version 2. The SDK is loaded with the first mail, because most projects never
// need it.
import type { SESv2Client } from '@aws-sdk/client-sesv2';
import type { MailSettings } from '../settings.ts';
import { composeMime } from './compose-mime.ts';
import { MailFailure, SEND_TIMEOUT_MS, wasNeverConnected, type MailTransport } from './transport.ts';

export function sesTransport(options: Extract<MailSettings, { type: 'ses' }>): MailTransport {
  let client: SESv2Client | undefined;
  return {
    name: 'ses',
    isIdempotent: false,
    async send(delivery) {
      const { SESv2Client, SendEmailCommand } = await import('@aws-sdk/client-sesv2');
      const { accessKeyId, secretAccessKey } = options;
      client ??= new SESv2Client({
        ...(options.region === undefined ? {} : { region: options.region }),
        ...(options.endpoint === undefined ? {} : { endpoint: options.endpoint }),
        ...(accessKeyId && secretAccessKey ? { credentials: { accessKeyId, secretAccessKey } } : {}),
        // The outbox retries, because it knows when a retry could send a mail twice.
        maxAttempts: 1,
      });
      const command = new SendEmailCommand({
        FromEmailAddress: delivery.from,
        Destination: { ToAddresses: [delivery.mail.to] },
        Content: { Raw: { Data: await composeMime(delivery) } },
      });
      try {
        const answer = await client.send(command, { abortSignal: AbortSignal.timeout(SEND_TIMEOUT_MS) });
        return answer.MessageId ?? '';
      } catch (error) {
        throw toFailure(error);
      }
    },
    close() {
      client?.destroy();
    },
  };
}

function toFailure(error: unknown): MailFailure {
  const message = `SES: ${error instanceof Error ? error.message : String(error)}`;
  if (wasNeverConnected(error)) return new MailFailure('retry', message, error);
  const status = httpStatus(error);
  if (status === undefined) return new MailFailure('uncertain', message, error);
  // An error status means that SES has not accepted the mail.
  const passes = status >= 500 || status === 429;
  return new MailFailure(passes ? 'retry' : 'rejected', message, error);
}

function httpStatus(error: unknown): number | undefined {
  if (typeof error !== 'object' || error === null || !('$metadata' in error)) return undefined;
  const { $metadata: metadata } = error;
  if (typeof metadata !== 'object' || metadata === null || !('httpStatusCode' in metadata)) return undefined;
  return typeof metadata.httpStatusCode === 'number' ? metadata.httpStatusCode : undefined;
}
