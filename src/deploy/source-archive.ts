// Builds the archive that `svc deploy` uploads: configuration and sources, without dependencies and secrets.
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative, sep } from 'node:path';
import type { Config } from '../config/config.ts';
import { Problem } from '../problem/problem.ts';
import type { ArchiveEntry } from '../functions/sources/archive.ts';
import { listSources, writeArchive, type BuiltBundle } from '../functions/sources/bundle.ts';
import { checkFunctions } from '../functions/sources/check.ts';
import { renderStamp, STAMP_PATH, type BuildStamp } from './build-stamp.ts';
import { requireLockfile } from '../functions/sources/install.ts';

export type SourceArchive = Pick<BuiltBundle, 'sha256' | 'bytes' | 'close'> & {
  readonly file: string;
  readonly paths: readonly string[];
};

/** `files`: absolute paths of other files the configuration refers to. */
export async function archiveSources(
  config: Config,
  directory: string,
  files: readonly string[],
  stamp: BuildStamp,
): Promise<SourceArchive> {
  const entries = new Map<string, ArchiveEntry>();
  if (config.functions.length > 0) {
    requireLockfile(directory);
    checkFunctions(config.functions, directory, process.execPath);
    for (const { path, file, size } of await listSources(directory, config.functions)) {
      entries.set(path, { path, content: { file, size } });
    }
  }
  for (const file of files) {
    const path = relative(directory, file).split(sep).join('/');
    if (path.startsWith('..')) {
      throw new Problem('file_outside', 500, `${path} is outside the project and cannot be uploaded`);
    }
    entries.set(path, { path, content: { file, size: (await stat(file)).size } });
  }
  // Unsubstituted: the server uses its own values for variables.
  entries.set('svc.yaml', { path: 'svc.yaml', content: Buffer.from(config.source.text) });
  entries.set(STAMP_PATH, { path: STAMP_PATH, content: Buffer.from(renderStamp(stamp)) });
  const folder = await mkdtemp(join(tmpdir(), 'svc-deploy-'));
  const file = join(folder, 'sources.tgz');
  const written = await writeArchive(file, [...entries.values()]);
  return {
    file,
    ...written,
    paths: [...entries.keys()].sort((a, b) => a.localeCompare(b)),
    close: () => rm(folder, { recursive: true, force: true }),
  };
}
