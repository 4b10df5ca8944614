// Rendering images: what may be asked for, and doing it within limits. The library is optional and loaded at its
// first use; everything about one picture that could cost much (pixels, bytes, time, how many at once) is bounded.
import { createHash } from 'node:crypto';
import type sharpLibrary from 'sharp';
import { z } from 'zod';
import { Abort } from '../../problem/problem.ts';
import { featureNotEnabled, invalidBody, slowDown, unreadableImage } from '../problem.ts';
import type { ImageLimits } from '../storage-context.ts';

const MAX_EDGE = 2000;
const DEFAULT_QUALITY = 80;

const RESIZE = { cover: 'fill', contain: 'fit', fill: 'force' } as const;
const FIT = { cover: 'cover', contain: 'inside', fill: 'fill' } as const;
/** Pictures made of pixels. SVG is a program for a renderer and is not among them. */
type Readable = 'jpeg' | 'png' | 'webp' | 'gif' | 'tiff' | 'heif';
/** The library's names of what reads them; every other reader it has is locked. */
const READERS = ['Jpeg', 'Png', 'Webp', 'Nsgif', 'Tiff', 'Heif'].map((name) => `VipsForeignLoad${name}`);

/**
 * By its first bytes, before the library sees any of it: to ask the library for the format is to have it read the
 * file, a drawing with all it refers to.
 */
function formatOf(source: Buffer): Readable | undefined {
  const start = source.toString('latin1', 0, 12);
  if (start.startsWith('\u00ff\u00d8\u00ff')) return 'jpeg';
  if (start.startsWith('\u0089PNG\r\n\u001a\n')) return 'png';
  if (/^GIF8[79]a/.test(start)) return 'gif';
  if (/^RIFF[^]{4}WEBP/.test(start)) return 'webp';
  if (/^(II[*+]\0|MM\0[*+])/.test(start)) return 'tiff';
  return start.slice(4, 8) === 'ftyp' ? 'heif' : undefined;
}
type Output = 'jpeg' | 'png' | 'webp' | 'gif' | 'avif';

const edge = z.coerce
  .number()
  .int()
  .transform((value) => Math.min(MAX_EDGE, Math.max(1, value)));

const transformation = z.object({
  width: edge.optional(),
  height: edge.optional(),
  resize: z.enum(['cover', 'contain', 'fill']).default('cover'),
  quality: z.coerce.number().int().min(20).max(100).optional(),
  format: z.enum(['origin', 'avif', 'webp']).optional(),
});

export type Transformation = z.infer<typeof transformation>;

/** Keys of the query or of a sign request; unknown ones are somebody else's. */
export function parseTransformation(given: Readonly<Record<string, unknown>>): Transformation {
  const present = Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== '' && value !== null),
  );
  const parsed = transformation.safeParse(present);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw invalidBody(`querystring/${issue?.path.join('/') ?? ''} is invalid`);
}

/** The order and the words the clients' own tests look for. */
export function describeTransformation({ width, height, resize, quality, format }: Transformation): string {
  return [
    ...(height === undefined ? [] : [`height:${height}`]),
    ...(width === undefined ? [] : [`width:${width}`]),
    `resizing_type:${RESIZE[resize]}`,
    ...(quality === undefined ? [] : [`quality:${quality}`]),
    ...(format === undefined || format === 'origin' ? [] : [`format:${format}`]),
  ].join(',');
}

export function transformedTag(etag: string, transformation: Transformation, output: string): string {
  const variant = createHash('md5')
    .update(`${describeTransformation(transformation)} ${output}`)
    .digest('hex');
  return `${etag.replace(/"$/, '')}-${variant.slice(0, 12)}"`;
}

/** A better format only where the client names it: the wildcard of every client is no preference. */
export function wantedFormat(
  { format }: Transformation,
  accept: string | undefined,
): 'origin' | 'avif' | 'webp' {
  if (format !== undefined) return format;
  // Not AVIF by itself: encoding it takes many times the time of the others.
  return /\bimage\/webp\b/.test(accept ?? '') ? 'webp' : 'origin';
}

type Sharp = typeof sharpLibrary;
let loading: Promise<Sharp | undefined> | undefined;

function loadSharp(): Promise<Sharp | undefined> {
  loading ??= import('sharp').then(
    ({ default: sharp }) => {
      // One thread per picture and no cache: memory stays with the pictures being rendered.
      sharp.concurrency(1);
      sharp.cache(false);
      sharp.block({ operation: ['VipsForeignLoad'] });
      sharp.unblock({ operation: READERS });
      return sharp;
    },
    () => undefined,
  );
  return loading;
}

export async function canRender(): Promise<boolean> {
  return (await loadSharp()) !== undefined;
}

export type Rendered = { readonly body: Buffer; readonly contentType: string };

export class ImageRenderer {
  readonly #limits: ImageLimits;
  #running = 0;
  readonly #waiting: Array<() => void> = [];

  constructor(limits: ImageLimits) {
    this.#limits = limits;
  }

  /** `read` is called when it is this picture's turn, so that waiting costs no memory. */
  async render(
    read: () => Promise<Buffer>,
    size: number,
    transformation: Transformation,
    wanted: 'origin' | 'avif' | 'webp',
    signal: AbortSignal,
  ): Promise<Rendered> {
    const sharp = await loadSharp();
    if (!sharp) throw featureNotEnabled('image transformation needs the package "sharp"');
    if (size > this.#limits.maxInputBytes) throw unreadableImage();
    await this.#enter(signal);
    try {
      return await transform(sharp, await read(), transformation, wanted, this.#limits);
    } finally {
      // The turn is handed on, so that nobody who comes in this moment takes it too.
      const next = this.#waiting.shift();
      if (next) next();
      else this.#running -= 1;
    }
  }

  /** Whoever leaves while waiting leaves the line: nobody would see the picture. */
  async #enter(signal: AbortSignal): Promise<void> {
    if (signal.aborted) throw new Abort('client-gone');
    if (this.#running < this.#limits.concurrent) {
      this.#running += 1;
      return;
    }
    if (this.#waiting.length >= this.#limits.waiting) throw slowDown('Too many images are being rendered');
    await new Promise<void>((resolve, reject) => {
      const leave = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(turn), 1);
        reject(new Abort('client-gone'));
      };
      const turn = (): void => {
        signal.removeEventListener('abort', leave);
        resolve();
      };
      signal.addEventListener('abort', leave, { once: true });
      this.#waiting.push(turn);
    });
  }
}

async function transform(
  sharp: Sharp,
  source: Buffer,
  { width, height, resize, quality = DEFAULT_QUALITY }: Transformation,
  wanted: 'origin' | 'avif' | 'webp',
  limits: ImageLimits,
): Promise<Rendered> {
  const options = { limitInputPixels: limits.maxInputPixels, failOn: 'error', pages: 1 } as const;
  const readable = formatOf(source);
  if (!readable) throw unreadableImage();
  try {
    const output: Output = wanted !== 'origin' ? wanted : outputOf(readable);
    const body = await sharp(source, options)
      .autoOrient()
      .resize({
        ...(width === undefined ? {} : { width }),
        ...(height === undefined ? {} : { height }),
        fit: FIT[resize],
        withoutEnlargement: resize !== 'fill',
      })
      .toFormat(output, output === 'png' || output === 'gif' ? {} : { quality })
      .timeout({ seconds: limits.timeoutSeconds })
      .toBuffer();
    return { body, contentType: `image/${output}` };
  } catch (cause) {
    // Broken, too large, too slow or no picture at all: nothing the library says is for the caller.
    throw unreadableImage({ cause });
  }
}

function outputOf(format: Readable): Output {
  if (format === 'tiff') return 'jpeg';
  return format === 'heif' ? 'avif' : format;
}
