// Stores and opens bundles: a local file, or an object in an S3-compatible store with the settings of
// providers.storage. A pointer is `<location>#<sha256>`.
import { createReadStream, createWriteStream } from 'node:fs';
import { copyFile, mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type * as sdkModule from '@aws-sdk/client-s3';
import { z } from 'zod';
import type { StorageProvider } from '../../config/config.ts';
import { Problem } from '../../problem/problem.ts';
import { unpack } from './archive.ts';
import { Digest } from './digest.ts';

export const MANIFEST = 'svc-bundle.json';
export const BUNDLE_FORMAT = 1;

export type BundleManifest = {
  readonly format: number;
  readonly functions: ReadonlyArray<{ readonly name: string; readonly file: string }>;
  /** Such as `linux-x64`, if it contains native add-ons; null if it runs everywhere. */
  readonly platform: string | null;
};

export type BundleAccess = {
  /** Base of relative paths. */
  readonly directory: string | undefined;
  readonly provider: StorageProvider;
};

/** A fetched, verified and unpacked bundle. */
export type OpenBundle = {
  readonly pointer: string;
  readonly root: string;
  close(): Promise<void>;
};

type S3Location = { readonly Bucket: string; readonly Key: string };

export async function openBundle(pointer: string, access: BundleAccess): Promise<OpenBundle> {
  const { location, sha256 } = parsePointer(pointer);
  const folder = await mkdtemp(join(tmpdir(), 'svc-functions-'));
  try {
    const archive = join(folder, 'bundle.tgz');
    const actual = await fetchTo(location, access, archive);
    // Verified before any of it is parsed.
    if (actual !== sha256) {
      throw new Problem('bundle_hash_mismatch', 500, 'The function bundle is not the one that was built', {
        details: `${location} has SHA-256 ${actual}, functions_bundle has ${sha256}`,
        hint: 'Run `svc bundle` again, or restore the object. None of it was run.',
      });
    }
    const root = join(folder, 'root');
    await mkdir(root);
    await unpack(createReadStream(archive), root);
    await rm(archive);
    await checkManifest(root);
    return { pointer, root, close: () => rm(folder, { recursive: true, force: true }) };
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

/** Stores a built archive and returns its pointer for svc.yaml. */
export async function storeBundle(
  archive: string,
  sha256: string,
  destination: string,
  access: BundleAccess,
): Promise<string> {
  const s3 = parseS3(destination);
  if (s3) {
    await withS3(access.provider, destination, async ({ sdk, client }) => {
      // Upload in one piece: for a stream the SDK signs chunks, which not every store supports.
      const Body = await readFile(archive);
      await client.send(new sdk.PutObjectCommand({ ...s3, Body, ContentType: 'application/gzip' }));
    });
  } else {
    const target = resolve(access.directory ?? '.', destination);
    await mkdir(dirname(target), { recursive: true });
    const draft = `${target}.${process.pid}.tmp`;
    await copyFile(archive, draft);
    await rename(draft, target);
  }
  return `${destination}#${sha256}`;
}

function parsePointer(pointer: string): { location: string; sha256: string } {
  const match = /^(.+)#([0-9a-f]{64})$/.exec(pointer);
  if (!match?.[1] || !match[2]) {
    throw new Problem('bad_bundle_pointer', 500, 'functions_bundle is not a valid bundle pointer', {
      details: pointer,
      hint: '`svc bundle` writes it, in the form s3://<bucket>/<key>#<sha256>.',
    });
  }
  return { location: match[1], sha256: match[2] };
}

function parseS3(location: string): S3Location | undefined {
  const match = /^s3:\/\/([^/]+)\/(.+)$/i.exec(location);
  return match?.[1] && match[2] ? { Bucket: match[1], Key: match[2] } : undefined;
}

async function fetchTo(location: string, access: BundleAccess, target: string): Promise<string> {
  const digest = new Digest();
  const save = (source: Readable): Promise<void> =>
    pipeline(source, digest.through, createWriteStream(target));
  const s3 = parseS3(location);
  if (s3) {
    await withS3(access.provider, location, async ({ sdk, client }) => {
      const { Body } = await client.send(new sdk.GetObjectCommand(s3));
      if (!(Body instanceof Readable)) throw new Error('the object has no body');
      await save(Body);
    });
  } else {
    try {
      await save(createReadStream(resolve(access.directory ?? '.', location)));
    } catch (cause) {
      throw unreachableBundle(location, cause);
    }
  }
  return digest.sha256();
}

type OpenS3 = { readonly sdk: typeof sdkModule; readonly client: sdkModule.S3Client };

async function withS3(
  provider: StorageProvider,
  location: string,
  work: (s3: OpenS3) => Promise<void>,
): Promise<void> {
  // Imported on demand: the SDK is larger than the rest of svc.
  const sdk = await import('@aws-sdk/client-s3');
  const client = new sdk.S3Client({
    forcePathStyle: true,
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    ...clientSettings(provider),
  });
  try {
    await work({ sdk, client });
  } catch (cause) {
    throw unreachableBundle(location, cause);
  } finally {
    client.destroy();
  }
}

/** Returns the settings of providers.storage. Without them the SDK reads the AWS environment variables. */
function clientSettings(provider: StorageProvider): sdkModule.S3ClientConfig {
  if (provider.type !== 's3') return {};
  const { region, endpoint, accessKeyId, secretAccessKey } = provider;
  return {
    ...(region === undefined ? (endpoint === undefined ? {} : { region: 'us-east-1' }) : { region }),
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(accessKeyId === undefined || secretAccessKey === undefined
      ? {}
      : { credentials: { accessKeyId, secretAccessKey } }),
  };
}

function unreachableBundle(location: string, cause: unknown): Problem {
  return new Problem('bundle_unreachable', 500, `The function bundle ${location} cannot be reached`, {
    cause,
    details: cause instanceof Error ? cause.message : String(cause),
    hint: location.startsWith('s3:')
      ? 'Credentials and endpoint come from providers.storage, or from the AWS environment variables.'
      : 'Relative paths start from the directory of svc.yaml.',
  });
}

const MANIFEST_SHAPE = z.object({
  format: z.literal(BUNDLE_FORMAT),
  platform: z.string().nullable().catch(null),
});

async function checkManifest(root: string): Promise<void> {
  let manifest: unknown;
  try {
    manifest = JSON.parse(await readFile(join(root, MANIFEST), 'utf8'));
  } catch (cause) {
    throw new Problem('bad_bundle', 500, `The archive is not a function bundle: it has no ${MANIFEST}`, {
      cause,
    });
  }
  const { data } = MANIFEST_SHAPE.safeParse(manifest);
  if (!data) {
    const message = 'This version of svc does not know the format of the function bundle';
    throw new Problem('bad_bundle', 500, message, { hint: 'Run `svc bundle` again.' });
  }
  const here = `${process.platform}-${process.arch}`;
  if (data.platform === null || data.platform === here) return;
  throw new Problem(
    'bundle_platform',
    500,
    `The function bundle has native add-ons for ${data.platform}, but this is ${here}`,
    { hint: 'Run `svc bundle` on the platform that serves it.' },
  );
}
