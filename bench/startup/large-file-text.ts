// Returns the text of a svc.yaml with any number of identical tables. `version` changes a policy of the first table
// and adds a column to it.
export function svcFile(tables: number, version: number): string {
  const names = Array.from({ length: tables }, (_, n) => n);
  return `version: 1\ntables:\n${names.map((n) => table(n, n === 0 ? version : 0)).join('')}`;
}

function table(n: number, version: number): string {
  const reference = (to: number): string => `{ references: bench_${Math.max(0, to)}.id, on_delete: cascade }`;
  return `  bench_${n}:
    fields:
      - { name: id, type: bigserial, primary_key: true }
      - { name: slug, type: text, unique: true, pattern: '^[a-z-]+$' }
      - { name: owner, type: uuid, required: true }
      - { name: title, type: varchar(200), required: true, default: untitled }
      - { name: status, type: text, enum: [open, done, archived] }
      - { name: amount, type: 'numeric(12,2)', min: 0, max: 1000000 }
      - { name: parent, foreign_key: ${reference(n - 1)} }
      - { name: other, foreign_key: ${reference(n - 2)} }
      - { name: due, type: timestamptz, default: now() }
      - { name: meta, type: jsonb, default: {} }
      - { name: score, type: integer, check: score between 0 and 100 }
      - { name: done, type: boolean, default: false }
${Array.from({ length: version }, (_, extra) => `      - { name: extra_${extra}, type: integer }\n`).join('')}\
    indexes:
      - { columns: [owner, status] }
      - { columns: [due], where: "status <> 'done'" }
    rls:
      - { operations: [select], using: "owner = auth.uid() or score > ${version}" }
      - { operations: [insert], with_check: owner = auth.uid() }
      - { operations: [update], using: "owner = auth.uid() and status <> 'archived'" }
      - { operations: [delete], using: owner = auth.uid() and not done }
`;
}
