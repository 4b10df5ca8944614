// Image transformations: parsing what is asked for, and rendering it within limits on pixels, bytes, time and
// concurrency. The library is optional and loaded at its first use.
import { createHash } from 'node:crypto';
import type sharpLibrary from 'sharp';
import { z } from 'zod';
import { Abort } from '../../problem/problem.ts';
import { featureNotEnabled, invalidBody, slowDown, unreadableImage } from '../problem.ts';

export type ImageLimits = {
  readonly maxInputPixels: number;
  readonly maxInputBytes: number;
  readonly timeoutSeconds: number;
  /** Images rendered at once by this process. */
  readonly concurrent: number;
  /** Requests that may wait for that; more get 429. */
  readonly waiting: number;
};

const MAX_EDGE = 2000;
const DEFAULT_QUALITY = 80;

const RESIZE = { cover: 'fill', contain: 'fit', fill: 'force' } as const;
const FIT = { cover: 'cover', contain: 'inside', fill: 'fill' } as const;
/** Raster formats. Not SVG, which makes a renderer run scripts and load URLs. */
type Readable = 'jpeg' | 'png' | 'webp' | 'gif' | 'tiff' | 'heif';
/** libvips loaders of these formats; all others are blocked. */
const READERS = ['Jpeg', 'Png', 'Webp', 'Nsgif', 'Tiff', 'Heif'].map((name) => `VipsForeignLoad${name}`);

/**
 * Detects the format by magic number, before the library reads the file: its own detection would already parse an
 * SVG.
 */
function detectFormat(source: Buffer): Readable | undefined {
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
type Format = NonNullable<Transformation['format']>;

/** Parses a query string or a sign request. Unknown keys are ignored. */
export function parseTransformation(given: Readonly<Record<string, unknown>>): Transformation {
  const present = Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== '' && value !== null),
  );
  const parsed = transformation.safeParse(present);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw invalidBody(`querystring/${issue?.path.join('/') ?? ''} is invalid`);
}

/** Value of `x-transformations`, in the order and words of Supabase Storage. */
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

/** Another format only where `Accept` names it: every client sends a wildcard. */
export function wantedFormat({ format }: Transformation, accept: string | undefined): Format {
  if (format !== undefined) return format;
  // AVIF requires an explicit request, because its encoding takes many times longer.
  return /\bimage\/webp\b/.test(accept ?? '') ? 'webp' : 'origin';
}

type Sharp = typeof sharpLibrary;
let loading: Promise<Sharp | undefined> | undefined;

function loadSharp(): Promise<Sharp | undefined> {
  loading ??= import('sharp').then(
    ({ default: sharp }) => {
      // One thread per image and no cache: memory is bounded by the images being rendered.
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

/**
 * Returns the transformation for the token of a signed link. Undefined if the server cannot render images.
 */
export async function signedTransformation(
  transform: Readonly<Record<string, unknown>>,
): Promise<string | undefined> {
  if (Object.keys(transform).length === 0 || !(await loadSharp())) return undefined;
  return JSON.stringify(parseTransformation(transform));
}

export type Rendered = { readonly body: Buffer; readonly contentType: string };

export class ImageRenderer {
  readonly #limits: ImageLimits;
  #running = 0;
  readonly #waiting: Array<() => void> = [];

  constructor(limits: ImageLimits) {
    this.#limits = limits;
  }

  /** `read` is called when rendering begins, so that waiting requests hold no memory. */
  async render(
    read: () => Promise<Buffer>,
    size: number,
    transformation: Transformation,
    wanted: Format,
    signal: AbortSignal,
  ): Promise<Rendered> {
    const sharp = await loadSharp();
    if (!sharp) throw featureNotEnabled('image transformation needs the package "sharp"');
    if (size > this.#limits.maxInputBytes) throw unreadableImage();
    await this.#enter(signal);
    try {
      return await transform(sharp, await read(), transformation, wanted, this.#limits);
    } finally {
      // A slot passes directly to the next in line, so that a new request cannot take it first.
      const next = this.#waiting.shift();
      if (next) next();
      else this.#running -= 1;
    }
  }

  /** Waits for a slot; a client that disconnects leaves the queue. */
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
  wanted: Format,
  limits: ImageLimits,
): Promise<Rendered> {
  const options = { limitInputPixels: limits.maxInputPixels, failOn: 'error', pages: 1 } as const;
  const readable = detectFormat(source);
  if (!readable) throw unreadableImage();
  try {
    const output: Output = wanted !== 'origin' ? wanted : outputFormat(readable);
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
    // Broken, too large, too slow or no image: the library's message is not for the caller.
    throw unreadableImage({ cause });
  }
}

function outputFormat(format: Readable): Output {
  if (format === 'tiff') return 'jpeg';
  return format === 'heif' ? 'avif' : format;
}
