// Resolves the `type:` of a column to a type of the file: `mood`, `public.mood`, `mood[]`, quoted or not.

type Declarable = { readonly schema: string };

export type DeclaredTypeName<T> = {
  readonly name: string;
  readonly type: T;
  readonly isArray: boolean;
  /** Array brackets as written. */
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
    const isMatch = spellings(name).some(
      (spelling) =>
        base === spelling || spellings(type.schema).some((schema) => base === `${schema}.${spelling}`),
    );
    const folded = base.toLowerCase();
    if (isMatch || folded === name || folded === `${type.schema}.${name}`)
      return { name, type, isArray: brackets.includes('['), brackets: brackets.replaceAll(/\s/g, '') };
  }
  return undefined;
}

function spellings(name: string): string[] {
  return [name, `"${name.replaceAll('"', '""')}"`];
}
