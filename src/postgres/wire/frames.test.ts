import { Buffer } from 'node:buffer';
import { expect, test } from 'vitest';
import { FrameWriter, type WireValue } from './frames.ts';

/** A message with its length, as the protocol documents it. */
function message(type: string, ...parts: ReadonlyArray<string | Buffer>): Buffer {
  const body = Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part)));
  return Buffer.concat([Buffer.from(type), int32(body.length + 4), body]);
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

function int16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(value);
  return bytes;
}

test.each<[string, WireValue, Buffer | undefined]>([
  ['null', null, undefined],
  ['an empty text', '', Buffer.alloc(0)],
  ['a short text', 'a1', Buffer.from('a1')],
  ['a short text with other letters', 'aß漢', Buffer.from('aß漢')],
  ['a long text', `${'x'.repeat(300)}ß`, Buffer.from(`${'x'.repeat(300)}ß`)],
  ['a text that is longer than the buffer', 'é'.repeat(70_000), Buffer.from('é'.repeat(70_000))],
  ['bytes', Buffer.from([0, 255, 7]), Buffer.from([0, 255, 7])],
])('bind writes %s', (_, value, bytes) => {
  const writer = new FrameWriter();
  writer.bind('ñame', [value, 'next']);
  const written = bytes === undefined ? int32(-1) : Buffer.concat([int32(bytes.length), bytes]);
  expect(writer.flush()).toEqual(
    message('B', '\0', 'ñame\0', int16(0), int16(2), written, int32(4), 'next', int16(0)),
  );
});

test('the other messages have the form of the protocol', () => {
  const writer = new FrameWriter();
  writer.parse('name', 'select 1');
  writer.describePortal();
  writer.execute();
  writer.closeStatement('name');
  writer.sync();
  expect(writer.flush()).toEqual(
    Buffer.concat([
      message('P', 'name\0', 'select 1\0', int16(0)),
      message('D', 'P\0'),
      message('E', '\0', int32(0)),
      message('C', 'Sname\0'),
      message('S'),
    ]),
  );
});

test('more values than the protocol can count are refused', () => {
  const values = Array.from({ length: 65_536 }, () => null);
  expect(() => new FrameWriter().bind('', values)).toThrow(RangeError);
  expect(() => new FrameWriter().bind('', values.slice(1))).not.toThrow();
});

test('a discarded message leaves no bytes', () => {
  const writer = new FrameWriter();
  writer.sync();
  const mark = writer.mark();
  writer.bind('name', ['value']);
  writer.rewind(mark);
  expect(writer.flush()).toEqual(message('S'));
});
