// Policies with circular references between tables, and similar policies without circular references.

type Case = {
  readonly what: string;
  readonly file: string;
};

/** `at` lists the conditions to report. `fails` is a statement that a signed-in caller cannot run. */
export const RINGS: readonly (Case & { readonly at: readonly string[]; readonly fails: string })[] = [
  {
    what: 'two tables whose policies read each other',
    file: tables(
      ['teams', ['select', 'id in (select team_id from members)']],
      ['members', ['select', 'team_id in (select t.id from teams t)']],
    ),
    at: ['tables.teams.rls[0].using', 'tables.members.rls[0].using'],
    fails: 'select from teams',
  },
  {
    what: 'a table whose policy reads the table',
    file: tables([
      'members',
      ['select', 'team_id in (select m.team_id from members m where m.id = auth.uid())'],
    ]),
    at: ['tables.members.rls[0].using'],
    fails: 'select from members',
  },
  {
    what: 'a ring of three',
    file: tables(
      ['teams', ['select', 'exists (select from members m where m.team_id = teams.id)']],
      ['members', ['select', 'exists (select from docs d where d.team_id = members.team_id)']],
      ['docs', ['select', 'exists (select from public.teams t where t.id = docs.team_id)']],
    ),
    at: ['tables.teams.rls[0].using', 'tables.members.rls[0].using', 'tables.docs.rls[0].using'],
    fails: 'select from docs',
  },
  {
    what: 'an insert that reads its table, whose policy reads another table',
    file: tables(
      ['teams', ['select', 'true']],
      [
        'members',
        ['select', 'team_id in (select id from teams)'],
        ['insert', 'not exists (select from members m where m.id = auth.uid())'],
      ],
    ),
    at: ['tables.members.rls[1].with_check'],
    fails: 'insert into members (id, team_id) values (gen_random_uuid(), gen_random_uuid())',
  },
];

export const OPEN_RINGS: readonly (Case & { readonly works: string })[] = [
  {
    what: 'references in one direction',
    file: tables(
      ['teams', ['select', 'id in (select team_id from members)']],
      ['members', ['select', 'id = auth.uid()']],
    ),
    works: 'select from teams',
  },
  {
    what: 'an insert that reads its table, whose select policy reads no table',
    file: tables([
      'members',
      ['select', 'id = auth.uid()'],
      ['insert', 'not exists (select from members m where m.id = auth.uid())'],
    ]),
    works: 'insert into members (id, team_id) values (gen_random_uuid(), gen_random_uuid())',
  },
  {
    what: 'a security definer function',
    file: `${tables(
      ['teams', ['select', 'is_member(id)']],
      ['members', ['select', 'team_id in (select id from teams)']],
    )}rpc:
  is_member:
    args: [{ name: team, type: uuid }]
    returns: { type: boolean }
    security: definer
    volatility: stable
    language: sql
    body: select exists (select from members m where m.team_id = team and m.id = auth.uid())
`,
    works: 'select from members',
  },
  {
    what: 'policies for different roles',
    file: tables(
      ['teams', ['select', 'id in (select team_id from members)', 'anon']],
      ['members', ['select', 'team_id in (select id from teams)', 'authenticated']],
    ),
    works: 'select from members',
  },
  {
    what: 'a write that reads a table whose policy reads this table',
    file: tables(
      ['teams', ['select', 'true'], ['insert', 'exists (select from members)']],
      ['members', ['select', 'team_id in (select id from teams)']],
    ),
    works: 'insert into teams (id, team_id) values (gen_random_uuid(), gen_random_uuid())',
  },
];

type Policy = readonly [operation: 'select' | 'insert', condition: string, role?: string];

function tables(...all: readonly (readonly [name: string, ...policies: Policy[]])[]): string {
  const written = all.map(
    ([name, ...policies]) => `  ${name}:
    fields:
      - { name: id, type: uuid, primary_key: true, default: uuid_v7() }
      - { name: team_id, type: uuid }
    rls:
${policies.map(policyText).join('')}`,
  );
  return `tables:\n${written.join('')}`;
}

function policyText([operation, condition, role]: Policy): string {
  const to = role === undefined ? '' : `        to: ${role}\n`;
  const key = operation === 'insert' ? 'with_check' : 'using';
  return `      - operations: [${operation}]\n${to}        ${key}: ${JSON.stringify(condition)}\n`;
}
