// Compares extensions: missing ones are created, and other versions are updated. An extension in another schema stays
// there.
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
