import { describe, expect, test } from 'vitest';
import { MAIL_KINDS, MAIL_TEMPLATES, NOTICE_KINDS, OAUTH_PROVIDERS } from '../../config/schema/names.ts';
import { BUILT_IN } from '../provider/builtin.ts';
import { composeMail } from './compose.ts';
import { defaultTexts } from './kinds.ts';
import { parseTemplate, renderTemplate, TemplateError, toPlainText } from './template.ts';

const render = (
  source: string,
  values: Record<string, unknown>,
  escaping: 'html' | 'text' | 'header' = 'html',
): string => renderTemplate(parseTemplate(source), values, escaping);

test.each([
  ['{{ .A }}', 'x'],
  ['{{.A}}', 'x'],
  ['{{-  .A  -}}', 'x'],
  ['{{ .B.c }}', 'y'],
  ['{{ .B.missing.deep }}', ''],
  ['{{ .Missing }}', ''],
  ['{{ .B.__proto__ }}{{ .B.constructor }}', ''],
  ['{{ if .A }}yes{{ else }}no{{ end }}', 'yes'],
  ['{{ if .Missing }}yes{{ else }}no{{ end }}', 'no'],
  ['{{ if not .Missing }}none{{ end }}', 'none'],
  ['{{ if .A }}{{ if .E }}a{{ else }}b{{ end }}c{{ end }}', 'bc'],
  ['{{/* a note */}}z', 'z'],
  ['{{ .Html }}', '&lt;b a=&quot;1&quot;&gt;&amp;&#39;'],
])('%s', (source, expected) => {
  expect(render(source, { A: 'x', B: { c: 'y' }, E: [], Html: `<b a="1">&'` })).toBe(expected);
});

test.each([
  '{{ if .A }}',
  '{{ end }}',
  '{{ else }}',
  '{{ printf "%s" .A }}',
  '{{ .A | html }}',
  '{{ range .A }}{{ end }}',
  '{{ A }}',
  '{{ }}',
])('%s is rejected', (source) => expect(() => parseTemplate(source)).toThrow(TemplateError));

describe('headers', () => {
  test.each(['a\r\nBcc: x', 'a\nb', 'a\u0000b', 'a\u007fb'])('%j stays one line', (value) => {
    // oxlint-disable-next-line no-control-regex
    expect(render('{{ .A }}', { A: value }, 'header')).not.toMatch(/[\u0000-\u001f\u007f]/);
  });
});

test.each(['\n\nYour account is locked', '\r\nx', 'a\u2028b', 'a\u202eb'])(
  'user metadata stays on its line in a plain mail: %j',
  (name) => {
    // oxlint-disable-next-line no-control-regex
    expect(render('Hello {{ .Data.name }}', { Data: { name } }, 'text')).not.toMatch(/[\r\n\u2028\u202e]/);
  },
);

test('user metadata is truncated', () => {
  expect(render('{{ .Data.bio }}', { Data: { bio: 'x'.repeat(5_000) } })).toHaveLength(200);
});

test('every kind has texts in every language, and all except notices have a code and a link', () => {
  for (const kind of MAIL_KINDS) {
    for (const locale of ['en', 'de-DE', 'xx', undefined, 7]) {
      const { subject, body } = defaultTexts(kind, locale);
      expect(() => [parseTemplate(subject), parseTemplate(body)]).not.toThrow();
      const isNotice = NOTICE_KINDS.some((notice) => notice === kind);
      expect(body.includes('{{ .Token }}')).toBe(!isNotice);
      expect(body.includes('{{ .ConfirmationURL }}')).toBe(!isNotice && kind !== 'reauthentication');
    }
  }
});

test('aliases refer to the same mail', () => {
  expect(
    ['confirmation', 'signup', 'magiclink', 'reset_password', 'nope'].map((name) => MAIL_TEMPLATES.get(name)),
  ).toEqual(['confirm', 'confirm', 'magic_link', 'recovery', undefined]);
});

test('a body without tags is plain text, unescaped', () => {
  const mail = composeMail(
    'recovery',
    'a@b.co',
    { Token: '1', Email: "o'hara@b.co" },
    { recovery: { body: 'Code {{ .Token }} for {{ .Email }}' } },
  );
  expect(mail).not.toHaveProperty('html');
  expect(mail).toMatchObject({ text: "Code 1 for o'hara@b.co" });
});

test('an unreadable template is reported and replaced by the default', () => {
  const complaints: string[] = [];
  const mail = composeMail(
    'recovery',
    'a@b.co',
    { Token: '123456' },
    { recovery: { body: '{{ if .A }}' } },
    (error) => complaints.push(error.message),
  );
  expect(mail.text).toContain('123456');
  expect(complaints).toEqual(['{{ if }} without {{ end }}']);
});

test('svc.yaml allows exactly the existing mails and providers', () => {
  expect(new Set(MAIL_TEMPLATES.values())).toEqual(new Set(MAIL_KINDS));
  expect([...OAUTH_PROVIDERS].toSorted()).toEqual(Object.keys(BUILT_IN).toSorted());
});

test('the plain-text part keeps links and words', () => {
  expect(
    toPlainText('<head><title>t</title></head><p>Hi</p><p><a href="https://a/?x=1&amp;y=2">go</a></p>'),
  ).toBe('Hi\ngo: https://a/?x=1&y=2');
});
