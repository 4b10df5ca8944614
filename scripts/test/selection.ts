// Selects the projects of a test run. Some of them rotate, selected by the hash of the commit.

/** Not a Vitest project: three instances before a PostgreSQL that fails over, run by `test/cluster/main.ts`. */
export const CLUSTER = 'cluster';

export type Selection = {
  readonly projects: readonly string[];
  /** Value of SVC_TEST_LONG: how many of the long random rounds run. Undefined: the short rounds. */
  readonly long: string | undefined;
  /** A line per selection that depends on the commit, with the command that repeats it. */
  readonly notes: readonly string[];
};

/** `npm test`: everything except slow tests, browsers and other versions. */
export const QUICK: Selection = {
  projects: ['unit', 'architecture', 'postgres'],
  long: undefined,
  notes: [],
};

/** `npm run test:all`. */
export const ALL: Selection = {
  projects: [
    ...QUICK.projects,
    'slow',
    'crashes',
    'packages',
    'browser',
    'postgres-15',
    'postgres-15-engine',
    'postgres-16',
    'postgres-17',
    'node-22',
    'deploy',
    'image',
    CLUSTER,
  ],
  long: '1',
  notes: [],
};

type Rotating = { readonly project: string; readonly paths: RegExp };

/** The hash selects one project of each list. A change of one of its paths always selects a project. */
const ROTATING: ReadonlyArray<readonly Rotating[]> = [
  [
    { project: 'node-22', paths: /^src\/supervisor\/|^bin\// },
    { project: CLUSTER, paths: /^src\/postgres\/|^test\/cluster\// },
    { project: 'image', paths: /^deploy\/Containerfile|^test\/deploy\/image/ },
    { project: 'deploy', paths: /^deploy\/|^test\/deploy\// },
  ],
  [
    { project: 'postgres-15-engine', paths: /^(src|test)\/migrate\// },
    {
      project: 'crashes',
      paths:
        /^src\/(migrate|import|storage|backup)\/|^test\/(migrate|import|storage|backup)\/.*\.slow\.test\.ts$/,
    },
    {
      project: 'packages',
      paths:
        /^(packages|site|docs|bin|test\/package)\/|^package(-lock)?\.json$|^tsconfig|^scripts\/(make|prepare)/,
    },
  ],
];

/** The long random rounds are divided into this many parts, each with its own seed. */
const LONG_PARTS = 6;

/** Selects the tests for a landing. `hash`: hexadecimal, of the commit. `changed`: paths that the commit changes. */
export function selectForLanding(hash: string, changed: readonly string[]): Selection {
  const number = Number.parseInt(hash.slice(0, 8), 16);
  let turns = number;
  const nextTurn = (choices: number): number => {
    const turn = turns % choices;
    turns = Math.floor(turns / choices);
    return turn;
  };
  const rotating = ROTATING.flatMap((list) => {
    const turn = list[nextTurn(list.length)];
    return list.filter((entry) => entry === turn || changed.some((path) => entry.paths.test(path)));
  }).map(({ project }) => project);
  const isMigration = changed.some((path) => path.startsWith('src/migrate/'));
  const turn = nextTurn(2);
  const majors = ['postgres-16', 'postgres-17'].filter((_project, index) => isMigration || index === turn);
  const long = `${(number % LONG_PARTS) + 1}/${LONG_PARTS}`;
  return {
    // `npm run check` has run the architecture tests.
    projects: ['unit', 'postgres', 'slow', 'browser', 'postgres-15', ...majors, ...rotating],
    long,
    notes: [
      ...[...majors, ...rotating].map((project) => `${project}: npm run test:all -- ${project}`),
      `part ${long} of the long random rounds: SVC_TEST_LONG=${long} npm test`,
    ],
  };
}
