/** The environment with the Node of the machine, without the variables of the npm that runs these tests. */
export const OF_THE_MACHINE: NodeJS.ProcessEnv & { readonly PATH: string } = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name))),
  PATH: (process.env['PATH'] ?? '')
    .split(':')
    .filter((directory) => !directory.endsWith('node_modules/.bin'))
    .join(':'),
};
