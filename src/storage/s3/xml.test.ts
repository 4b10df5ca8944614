import { expect, test } from 'vitest';
import { childText, element, parseXml, renderXml } from './xml.ts';

test('what is written can be read', () => {
  const text = ' <&>"\' ü\r\n';
  const root = parseXml(renderXml(element('Delete', [element('Key', text), element('Quiet', 'true')])));
  expect(childText(root, 'Key')).toBe(text);
  expect(childText(root, 'Quiet')).toBe('true');
});

test('attributes and empty elements are passed over', () => {
  const root = parseXml(
    '<?xml version="1.0"?><Delete xmlns="http://x/"><Quiet/><Key>a&#x41;&#66;</Key></Delete>\n',
  );
  expect(root.children.map(({ name, text }) => [name, text])).toEqual([
    ['Quiet', ''],
    ['Key', 'aAB'],
  ]);
});

test.each([
  '',
  'text',
  '<a>',
  '<a></b>',
  '<a/><b/>',
  '</a>',
  '<a>&nbsp;</a>',
  '<a>& </a>',
  '<a>&#0;</a>',
  '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>',
  '<a><!-- b --></a>',
  '<a><![CDATA[b]]></a>',
  '<a b=c></a>',
  '<a>'.repeat(9) + '</a>'.repeat(9),
])('refused: %s', (text) => {
  expect(() => parseXml(text)).toThrow('XML');
});
