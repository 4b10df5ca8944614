// Watches svc.yaml and its files and variables. Changes are stored until they are handled, so that none is lost while
// the service starts.
import { join } from 'node:path';
import { watch } from 'chokidar';
import { SerialQueue } from '../../lib/limits/serial-queue.ts';
import type { Project } from '../project/project.ts';

export type ProjectChanges = {
  /** Starts to handle changes: one call for all changes since the last one, one call at a time. */
  handle(onChange: () => Promise<void>): void;
  /** Watches more files. */
  add(files: readonly string[]): void;
  /** Stops watching. Resolves when the current call has ended. */
  close(): Promise<void>;
};

export function watchProject({ watched, directory, config }: Project): ProjectChanges {
  const { mode = 'development' } = config.source;
  const named = new Set([...watched, join(directory, '.env'), join(directory, `.${mode}.env`)]);
  const watcher = watch([...named], {
    ignoreInitial: true,
    // Watches only YAML files in folders, because an included folder may contain the whole project with its
    // packages.
    ignored: (path, stats) =>
      !named.has(path) &&
      (FOREIGN.test(path.slice(directory.length)) || (stats?.isFile() === true && !/\.ya?ml$/.test(path))),
    // Editors write in several steps, so wait until the file is complete.
    awaitWriteFinish: { stabilityThreshold: 60, pollInterval: 20 },
  });
  let handler: (() => Promise<void>) | undefined;
  let changed = false;
  const queue = new SerialQueue();
  const next = (): void => {
    if (!changed || !handler) return;
    const onChange = handler;
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
    handle(onChange) {
      handler = onChange;
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

/** Folders that contain no configuration. */
const FOREIGN = /[\\/](?:node_modules|dist|\.[^\\/]+)(?:[\\/]|$)/;
