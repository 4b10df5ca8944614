// Extensions: those that are missing, and those of another version than the file asks for. One that is in another schema
// is taken as it is.
import type { LiveExtension } from '../../schema/live/live-schema.ts';
import type { ExtensionModel } from '../../schema/model.ts';
import type { Change } from '../change.ts';

export function diffExtensions(
  declared: readonly ExtensionModel[],
  live: readonly LiveExtension[],
): Change[] {
  return declared.flatMap((extension): Change[] => {
    const installed = live.find(({ name }) => name === extension.name);
    if (!installed) return [{ kind: 'create-extension', extension }];
    if (extension.version === null || extension.version === installed.version) return [];
    return [{ kind: 'update-extension', extension, installed }];
  });
}
