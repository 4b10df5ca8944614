import { EMPTY, type Answer, type AuthRequest } from './request.ts';

/** Answers a request for a mail if no provider is configured. The log gives the operator the reason. */
export function noMail({ auth }: AuthRequest): Answer {
  auth.log.warn('a mail was requested and not sent: configure providers.email in svc.yaml');
  return EMPTY;
}
