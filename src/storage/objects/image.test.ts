import sharp from 'sharp';
import { expect, test } from 'vitest';
import { ImageRenderer, parseTransformation } from './image.ts';

const LIMITS = {
  maxInputPixels: 10_000,
  maxInputBytes: 100_000,
  timeoutSeconds: 10,
  concurrent: 1,
  waiting: 1,
};

test('leaving the queue frees a place', async () => {
  const picture = await sharp({ create: { width: 8, height: 8, channels: 3, background: '#000' } })
    .png()
    .toBuffer();
  const renderer = new ImageRenderer(LIMITS);
  const render = (read: () => Promise<Buffer>, signal = new AbortController().signal) =>
    renderer.render(read, picture.length, parseTransformation({ width: 4 }), 'origin', signal);
  let begin: (bytes: Buffer) => void = () => {};
  const first = render(() => new Promise((resolve) => (begin = resolve)));
  // The library is loaded before the first takes its turn.
  await expect.poll(() => begin.length).toBe(1);

  const controller = new AbortController();
  const second = render(() => Promise.resolve(picture), controller.signal);
  const refused = render(() => Promise.resolve(picture));
  await expect(refused).rejects.toMatchObject({ status: 429 });
  controller.abort();
  await expect(second).rejects.toMatchObject({ reason: 'client-gone' });

  const third = render(() => Promise.resolve(picture));
  begin(picture);
  expect((await first).contentType).toBe('image/png');
  expect((await third).contentType).toBe('image/png');
  await expect(render(() => Promise.resolve(picture), AbortSignal.abort())).rejects.toMatchObject({
    reason: 'client-gone',
  });
});
