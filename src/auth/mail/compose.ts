// Composes a mail from its kind and values, with the template of svc.yaml or the default template.
import type { TemplateOverride } from '../settings.ts';
import { MAIL_TEMPLATES, type MailKind } from '../../config/schema/names.ts';
import { defaultTexts } from './kinds.ts';
import {
  looksLikeHtml,
  parseTemplate,
  renderTemplate,
  TemplateError,
  toPlainText,
  type TemplateValues,
} from './template.ts';

export type Mail = {
  readonly kind: MailKind;
  readonly to: string;
  readonly subject: string;
  /** Undefined for a plain-text template. */
  readonly html?: string | undefined;
  readonly text: string;
  /** The code and link in the text, for the log of `svc dev`. */
  readonly code?: string | undefined;
  readonly link?: string | undefined;
};

export function composeMail(
  kind: MailKind,
  to: string,
  values: TemplateValues,
  overrides: Readonly<Record<string, TemplateOverride>>,
  onBadTemplate: (error: TemplateError) => void = () => {},
): Mail {
  const override = findOverride(kind, overrides);
  if (!override) return fill(kind, to, values, undefined);
  try {
    return fill(kind, to, values, override);
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    // A mistake in a template must not delay a mail, so the default text is sent instead.
    onBadTemplate(error);
    return fill(kind, to, values, undefined);
  }
}

function fill(
  kind: MailKind,
  to: string,
  values: TemplateValues,
  override: TemplateOverride | undefined,
): Mail {
  const data = values['Data'];
  const locale = typeof data === 'object' && data !== null && 'locale' in data ? data.locale : undefined;
  const defaults = defaultTexts(kind, locale);
  const subject = renderTemplate(
    parseTemplate(override?.subject ?? defaults.subject),
    values,
    'header',
  ).trim();
  const source = override?.body ?? defaults.body;
  if (!looksLikeHtml(source)) {
    return { kind, to, subject, text: renderTemplate(parseTemplate(source), values, 'text') };
  }
  const html = renderTemplate(parseTemplate(source), values, 'html');
  return { kind, to, subject, html, text: toPlainText(html) };
}

/** Finds the template of a mail. svc.yaml may use any alias of its name. */
export function findOverride(
  kind: MailKind,
  overrides: Readonly<Record<string, TemplateOverride>>,
): TemplateOverride | undefined {
  for (const [name, override] of Object.entries(overrides))
    if (MAIL_TEMPLATES.get(name) === kind) return override;
  return undefined;
}
