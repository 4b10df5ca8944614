import { HighlightStyle } from '@codemirror/language';
import { tags } from '@lezer/highlight';

/** Colours for white and for the active line: each has a contrast of at least 4.5 with both. */
export const lightHighlight: HighlightStyle = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: '#770088' },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: '#a11111' },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: '#116644' },
  { tag: [tags.comment, tags.meta], color: '#5f666d' },
  { tag: [tags.propertyName, tags.definition(tags.propertyName), tags.attributeName], color: '#0a4fa0' },
  { tag: [tags.function(tags.variableName), tags.typeName, tags.className], color: '#7a4100' },
  { tag: tags.invalid, color: '#b00020' },
]);
