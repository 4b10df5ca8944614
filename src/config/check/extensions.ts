// Extensions: no duplicates, and no reserved schemas.
import type { CheckContext } from './context.ts';
import { isReservedSchema } from './name.ts';

export function checkExtensions(context: CheckContext): void {
  const seen = new Set<string>();
  context.file.extensions.forEach(({ name, ...more }, index) => {
    const path = ['extensions', index];
    const at = context.isWritten([...path, 'name']) ? [...path, 'name'] : path;
    if (seen.has(name)) context.reportTwice(at, `the extension ${name} is listed twice`);
    seen.add(name);
    const schema = 'schema' in more ? more.schema : undefined;
    if (schema === undefined || schema === 'extensions' || !isReservedSchema(schema)) return;
    context.report({
      code: 'reserved-name',
      path: [...path, 'schema'],
      message: `an extension cannot use the reserved schema ${context.show([...path, 'schema'], schema)}`,
      hint: 'Omit schema to use the schema extensions, or choose another name.',
    });
  });
}
