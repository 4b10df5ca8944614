// Stores the URL of the running `svc dev` of a project, for other commands of that project.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';

const RUNNING = z.object({ url: z.string(), pid: z.int() });

/** Stores the URL. `directory`: folder of the configuration file. Returns a function that removes the URL. */
export function publishRunningServer(directory: string, url: string): () => void {
  const file = fileIn(directory);
  mkdirSync(join(directory, '.svc'), { recursive: true });
  writeFileSync(file, JSON.stringify({ url, pid: process.pid }));
  return () => rmSync(file, { force: true });
}

/** Returns the base URL, or undefined if no `svc dev` runs on the project. */
export function readRunningServer(directory: string): string | undefined {
  try {
    const { url, pid } = RUNNING.parse(JSON.parse(readFileSync(fileIn(directory), 'utf8')));
    // Throws if a killed svc has left the file behind.
    process.kill(pid, 0);
    return url;
  } catch {
    return undefined;
  }
}

function fileIn(directory: string): string {
  return join(directory, '.svc', 'running.json');
}
