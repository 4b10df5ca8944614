// Converts the form into edits of svc.yaml. Only changed keys are edited, so that defaults stay implicit.
import type { AuthSettings, ConfigEditRequest } from '../../../../src/dashboard-api/contract.ts';
import { formatDuration, parseDuration } from '../../../../src/lib/duration.ts';

export type SettingsForm = {
  allowSignup: boolean;
  allowAnonymous: boolean;
  verifyEmail: boolean;
  jwtExpiry: string;
  refreshTokenExpiry: string;
  redirectUrls: readonly string[];
};

export function toForm(settings: AuthSettings): SettingsForm {
  return {
    allowSignup: settings.allowSignup,
    allowAnonymous: settings.allowAnonymous,
    verifyEmail: settings.email.verifyEmail,
    jwtExpiry: formatDuration(settings.jwtExpirySeconds * 1000),
    refreshTokenExpiry: formatDuration(settings.refreshTokenExpirySeconds * 1000),
    redirectUrls: settings.redirectUrls,
  };
}

export function settingEdits(before: SettingsForm, after: SettingsForm): ConfigEditRequest[] {
  const set = (path: string[], old: unknown, value: unknown): ConfigEditRequest[] =>
    old === value ? [] : [{ kind: 'set', path: ['auth', ...path], value }];
  return [
    ...set(['allow_signup'], before.allowSignup, after.allowSignup),
    ...set(['allow_anonymous'], before.allowAnonymous, after.allowAnonymous),
    ...set(['email', 'verify_email'], before.verifyEmail, after.verifyEmail),
    ...set(['jwt_expiry'], before.jwtExpiry, after.jwtExpiry.trim()),
    ...set(['refresh_token_expiry'], before.refreshTokenExpiry, after.refreshTokenExpiry.trim()),
    ...listEdits(['auth', 'redirect_urls'], before.redirectUrls, after.redirectUrls),
  ];
}

/** Edits items one by one from the end, which keeps the comments of the other items. */
function listEdits(path: string[], before: readonly string[], after: readonly string[]): ConfigEditRequest[] {
  const gone = before.flatMap((item, index) => (after.includes(item) ? [] : [index]));
  return [
    ...gone.toReversed().map((index): ConfigEditRequest => ({ kind: 'delete', path: [...path, index] })),
    ...after
      .filter((item) => !before.includes(item))
      .map((value): ConfigEditRequest => ({ kind: 'append', path, value })),
  ];
}

export function isDuration(text: string): boolean {
  return parseDuration(text.trim()) !== undefined;
}
