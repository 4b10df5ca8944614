// Watches svc.yaml and the files and variables it is made of. Changes are kept until they are taken, so that none
// is lost while the service starts.
import { join } from 'node:path';
import { watch } from 'chokidar';
import { SerialQueue } from '../../lib/serial-queue.ts';
import type { Project } from '../project.ts';

export type ProjectChanges = {
  /** From now on, one call for all changes since the last one. One call at a time. */
  take(onChange: () => Promise<void>): void;
  /** More files to watch. */
  add(files: readonly string[]): void;
  /** Ends when the call under way has. */
  close(): Promise<void>;
};

export function watchProject({ watched, directory, config }: Project): ProjectChanges {
  const { mode = 'development' } = config.source;
  const named = new Set([...watched, join(directory, '.env'), join(directory, `.${mode}.env`)]);
  const watcher = watch([...named], {
    ignoreInitial: true,
    // In folders only what `include` may take up: a folder may be that of the project, with all its packages.
    ignored: (path, stats) =>
      !named.has(path) &&
      (FOREIGN.test(path.slice(directory.length)) || (stats?.isFile() === true && !/\.ya?ml$/.test(path))),
    // Editors write in several steps: wait until the file is whole.
    awaitWriteFinish: { stabilityThreshold: 60, pollInterval: 20 },
  });
  let take: (() => Promise<void>) | undefined;
  let changed = false;
  const queue = new SerialQueue();
  const next = (): void => {
    if (!changed || !take) return;
    const onChange = take;
    void queue.run(() => {
      changed = false;
      return onChange();
    });
  };
  watcher.on('all', () => {
    if (changed) return;
    changed = true;
    next();
  });
  return {
    take(onChange) {
      take = onChange;
      next();
    },
    add(more) {
      for (const path of more) named.add(path);
      watcher.add([...more]);
    },
    async close() {
      await watcher.close();
      await queue.idle();
    },
  };
}

/** Folders that hold no part of a configuration. */
const FOREIGN = /[\\/](?:node_modules|dist|\.[^\\/]+)(?:[\\/]|$)/;
