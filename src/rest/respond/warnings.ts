// Texts of the Warning header.

export function cutWarning(limit: number): string {
  return `299 svc "default limit ${limit} applied: there are more rows, ask for them with limit or Range"`;
}

export function legacyWarnings(names: readonly string[]): string[] {
  return names.map(
    (name) =>
      `299 svc "embed addressed as ${name.replaceAll(/[^\x20-\x7e]|["\\]/g, '?')} although it has an alias"`,
  );
}
