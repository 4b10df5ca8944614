// `svc mail test`: sends one mail through the provider of svc.yaml, and prints the provider's response.
import { randomUUID } from 'node:crypto';
import { Command } from 'commander';
import { z } from 'zod';
import { makeTransport } from '../../auth/mail/make-transport.ts';
import { MailFailure } from '../../auth/mail/transport.ts';
import { readAuthSettings, type MailSettings } from '../../auth/settings.ts';
import { readEmail, wireAddress } from '../../auth/users/email-address.ts';
import { EXIT, failure } from '../exit.ts';
import { modeOption, type ModeOption } from '../project/mode-option.ts';
import { loadProject } from '../project/project.ts';
import { reporting } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';

const SENT = z.strictObject({ provider: z.string(), to: z.string(), messageId: z.string() });

type Options = ModeOption & { config?: string };

export function mailCommand(terminal: Terminal): Command {
  const command = new Command('mail').description('check the mail provider');
  const test = new Command('test')
    .description('send a test mail through the provider of svc.yaml, even if svc dev captures mail')
    .argument('<address>', 'the recipient')
    .option('-c, --config <file>', 'the configuration file')
    .addOption(modeOption('production'));
  reporting(test, terminal, SENT, async (out, address: string, { config: named, mode }: Options) => {
    const to = readEmail(address);
    if (to === undefined) throw failure(EXIT.misuse, `${JSON.stringify(address)} is not a mail address`);
    const { config, env } = await loadProject(
      { config: named, mode: mode ?? 'production', requireVariables: true },
      out,
    );
    const { mail } = readAuthSettings(config, env, false);
    if (!mail)
      throw failure(
        EXIT.badConfiguration,
        'no mail provider is configured',
        'Add providers.email to svc.yaml.',
      );
    const messageId = await send(mail, to, config.project.name);
    out.print(`sent to ${to} by ${mail.type}${messageId === '' ? '' : `: ${messageId}`}`);
    return { data: { provider: mail.type, to, messageId } };
  });
  return command.addCommand(test);
}

async function send(settings: MailSettings, to: string, project = 'svc'): Promise<string> {
  const transport = makeTransport(settings);
  const mail = {
    to: wireAddress(to),
    subject: `Test mail from ${project}`,
    text: 'The mail provider works. This mail was sent by `svc mail test`.',
  };
  try {
    return await transport.send({ idempotencyKey: randomUUID(), from: settings.from, mail });
  } catch (error) {
    if (!(error instanceof MailFailure)) throw error;
    const hint =
      error.outcome === 'uncertain'
        ? 'The mail may have been sent. Check the inbox before you try again.'
        : 'Check providers.email and the settings of the provider.';
    throw failure(EXIT.problem, error.message, hint);
  } finally {
    transport.close();
  }
}
