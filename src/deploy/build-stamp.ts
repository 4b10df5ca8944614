// The build stamp `.svc/build.json` next to svc.yaml records when the file was released. It is part of the deployed
// files: a revert that is rebuilt counts as newer, and an old image that restarts stays old. File times cannot
// replace it, because mounts and reproducible builds change them.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import { hasCode } from '../lib/error-code.ts';
import { Problem } from '../problem/problem.ts';

export const STAMP_PATH = '.svc/build.json';

const STAMP = z.object({
  /** Milliseconds since 1970. */
  sequence: z.int().positive(),
  commit: z.string().nullable().default(null),
  /** True if the folder had uncommitted changes. */
  dirty: z.boolean().default(false),
});

export type BuildStamp = z.infer<typeof STAMP>;

export async function makeStamp(directory: string): Promise<BuildStamp> {
  return { sequence: Date.now(), ...(await describeCommit(directory)) };
}

export async function writeStamp(directory: string, stamp: BuildStamp): Promise<void> {
  const file = join(directory, STAMP_PATH);
  await mkdir(join(directory, '.svc'), { recursive: true });
  await writeFile(`${file}.tmp`, renderStamp(stamp));
  await rename(`${file}.tmp`, file);
}

export function renderStamp(stamp: BuildStamp): string {
  return `${JSON.stringify(stamp)}\n`;
}

/** Undefined where there is none. */
export function readStamp(directory: string): BuildStamp | undefined {
  let text: string;
  try {
    text = readFileSync(join(directory, STAMP_PATH), 'utf8');
  } catch (error) {
    if (hasCode(error, 'ENOENT', 'ENOTDIR')) return undefined;
    throw error;
  }
  const stamp = STAMP.safeParse(parseJson(text));
  if (stamp.success) return stamp.data;
  throw new Problem('bad_build_stamp', 500, `${STAMP_PATH} is not a build stamp`, {
    hint: 'Write a new one with `svc stamp`, or remove it.',
  });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Judged by its shape.
    return undefined;
  }
}

const run = promisify(execFile);

/**
 * Describes the commit of the folder's own Git repository, if there is one. Images are often built without it.
 */
async function describeCommit(directory: string): Promise<Pick<BuildStamp, 'commit' | 'dirty'>> {
  const git = async (...args: string[]): Promise<string> => {
    const { stdout } = await run('git', ['-C', directory, ...args], { timeout: 10_000 });
    return stdout.trim();
  };
  try {
    return {
      commit: await git('rev-parse', 'HEAD'),
      dirty: (await git('status', '--porcelain', '--', '.')) !== '',
    };
  } catch {
    // No Git, no repository, no commit yet: the stamp orders without it.
    return { commit: null, dirty: false };
  }
}
