// The rules of `npm run english`. Each rule names the kinds of text that it applies to.
import type { Extract } from './extract.ts';

export type Finding = { readonly line: number; readonly rule: string; readonly text: string };

type Kind = Extract['kind'];
type Rule = {
  readonly name: string;
  readonly kinds: readonly Kind[];
  readonly pattern: RegExp;
  readonly advice: string;
};

const WORDS = [
  'tells?|told|hears?|heard|stands?|stood|lies|lay|says?|said|wants?',
  'nobody|somebody|whoever|besides?|anew|meanwhile|so many|so long as',
  '(?:gives?|given|gave) up|lets? go|of (?:its|their) own',
];
const SUBJECTS = 'On|At|As|From|With|Without|For|To|Its|It|They|Their|Those|One|That|Nobody|Nothing|Somebody';
const PROSE: readonly Kind[] = ['comment', 'doc-comment', 'string', 'heading', 'page', 'file-name'];

export const RULES: readonly Rule[] = [
  {
    name: 'opener',
    kinds: ['comment', 'doc-comment', 'heading'],
    pattern: /^(?:What|Whatever|Who|Whoever|Whose|Whom|Where|Of|By|In) /,
    advice: 'start with a verb or a noun phrase',
  },
  {
    name: 'subject',
    kinds: ['doc-comment'],
    pattern: new RegExp(`^(?:${SUBJECTS}) `),
    advice: 'start with a verb, or name the thing',
  },
  {
    name: 'word',
    kinds: PROSE,
    pattern: new RegExp(`\\b(?:${WORDS.join('|')})\\b`, 'i'),
    advice: 'use a technical verb or name the thing',
  },
  {
    name: 'litotes',
    kinds: PROSE,
    pattern: /(?<!\bthere )\b(?:is|are) no (?!longer\b)[a-z]/i,
    advice: 'write "is not a URL"',
  },
  {
    name: 'limit-name',
    kinds: ['constant'],
    pattern: /^(?:MOST|LEAST|LARGEST|LONGEST|DEEPEST|SHORTEST|HIGHEST)(?:_|$)/,
    advice: 'use MAX_… or MIN_…',
  },
  {
    name: 'verb-name',
    kinds: ['function'],
    pattern: /^#?(?:tell|hear|take|look|say|bring|may)(?:[A-Z]|$)/,
    advice: 'use a technical verb, or can… for a permission',
  },
  {
    name: 'of-name',
    kinds: ['function'],
    pattern: /Of$/,
    advice: 'hashOf → hash, keyOf → tableKey',
  },
  {
    name: 'filler-name',
    kinds: ['parameter', 'constant'],
    pattern: /^(?:one|what|which|who|some|others?)$/,
    advice: 'use the noun: row, table, change',
  },
  { name: 'length', kinds: ['line'], pattern: /^.{121,}/, advice: 'break the line at 120 columns' },
  { name: 'commit', kinds: ['commit'], pattern: /^.{73,}/, advice: 'use at most 72 characters' },
  {
    name: 'commit',
    kinds: ['commit'],
    pattern: /^(?:[^ :]+: )?(?:an?|the|its?|they|their|what|who|whoever|nobody|of|by|in|on|one) /i,
    advice: 'start with an imperative verb',
  },
];

/** Texts that must stay as they are. They are removed before the rules apply. */
export const EXCEPTIONS: ReadonlyArray<{ readonly text: string; readonly reason: string }> = [
  { text: 'svc_untold', reason: 'stored name' },
  { text: 'svc.untold', reason: 'stored name' },
];

/** Returns one finding for each rule that a text breaks. */
export function applyRules(extracts: readonly Extract[]): readonly Finding[] {
  return extracts.flatMap(({ kind, line, text }) => {
    const checked = EXCEPTIONS.reduce((rest, exception) => rest.replaceAll(exception.text, ''), text);
    return RULES.filter((rule) => rule.kinds.includes(kind) && rule.pattern.test(checked)).map((rule) => {
      const match = rule.pattern.exec(checked)?.[0] ?? '';
      const shown = kind === 'line' ? `${text.length} columns` : match.trim().slice(0, 60);
      return { line, rule: rule.name, text: `${shown} → ${rule.advice}` };
    });
  });
}
