import { HighlightStyle } from '@codemirror/language';
import { tags } from '@lezer/highlight';

/** Colours for the dark background: each has a contrast of at least 4.5. */
export const darkHighlight: HighlightStyle = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: '#c792ea' },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: '#c3e88d' },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: '#f78c6c' },
  { tag: [tags.comment, tags.meta], color: '#9aa5ce' },
  { tag: [tags.propertyName, tags.definition(tags.propertyName), tags.attributeName], color: '#82aaff' },
  { tag: [tags.function(tags.variableName), tags.typeName, tags.className], color: '#ffcb6b' },
  { tag: tags.invalid, color: '#ff8b92' },
]);
