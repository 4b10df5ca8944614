// Which type of the file a column's `type:` names, if any: `mood`, `public.mood`, `mood[]`, quoted or not.

type Declarable = { readonly schema: string };

export type DeclaredTypeName<T> = {
  readonly name: string;
  readonly type: T;
  readonly isArray: boolean;
  /** The brackets behind it, as written. */
  readonly brackets: string;
};

export function declaredType<T extends Declarable>(
  written: string | undefined,
  types: Readonly<Record<string, T>>,
): DeclaredTypeName<T> | undefined {
  if (written === undefined) return undefined;
  const brackets = /(?:\s*\[\d*\])*\s*$/.exec(written)?.[0] ?? '';
  const base = written.slice(0, written.length - brackets.length).trim();
  for (const [name, type] of Object.entries(types)) {
    const isIt = spellings(name).some(
      (one) => base === one || spellings(type.schema).some((schema) => base === `${schema}.${one}`),
    );
    const folded = base.toLowerCase();
    if (isIt || folded === name || folded === `${type.schema}.${name}`)
      return { name, type, isArray: brackets.includes('['), brackets: brackets.replaceAll(/\s/g, '') };
  }
  return undefined;
}

function spellings(name: string): string[] {
  return [name, `"${name.replaceAll('"', '""')}"`];
}
