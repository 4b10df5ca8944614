// Files and folders that svc.yaml names: they must exist in its directory.
import { accessSync, constants, statSync } from 'node:fs';
import { isAbsolute, join, relative, sep } from 'node:path';
import type { KeyPath } from '../mistakes/mistake.ts';
import type { CheckContext } from './context.ts';

/** Returns true if the file or folder exists and is readable. */
export function checkReferencedFile(
  context: CheckContext,
  path: KeyPath,
  file: string,
  kind: 'file' | 'folder' = 'file',
): boolean {
  const { directory } = context.options;
  if (directory === undefined) return false;
  const whole = join(directory, file);
  const inside = relative(directory, whole);
  const shown = context.show(path, file);
  if (isAbsolute(file) || inside === '..' || inside.startsWith(`..${sep}`)) {
    context.badValue(
      path,
      `${shown} is outside the directory of this file`,
      'Write a path within the directory of svc.yaml, relative to it.',
    );
    return false;
  }
  const missing = (message: string, hint: string): boolean => {
    context.report({ code: 'missing-file', path, message, hint });
    return false;
  };
  const stats = statSync(whole, { throwIfNoEntry: false });
  if (!stats)
    return missing(
      `there is no ${kind} ${shown}`,
      `Create it, or correct the path, which is relative to ${directory}.`,
    );
  if (kind === 'file' && !stats.isFile()) return missing(`${shown} is not a file`, 'Name a file.');
  if (kind === 'folder' && !stats.isDirectory())
    return missing(`${shown} is not a folder`, 'Name the folder that contains the files.');
  if (isReadable(whole)) return true;
  return missing(`${shown} is not readable`, 'Allow the user that runs svc to read it.');
}

/** Checks a file that contains a text of svc.yaml, such as a function body. */
export function checkBodyFile(context: CheckContext, path: KeyPath, file: string): void {
  if (context.options.directory !== undefined) {
    checkReferencedFile(context, path, file);
    return;
  }
  context.report({
    code: 'missing-file',
    path,
    message: 'a remote configuration cannot refer to files',
    hint: 'Write the text inline: body: ….',
  });
}

function isReadable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK);
    return true;
  } catch {
    // The hint is the same for every cause.
    return false;
  }
}
