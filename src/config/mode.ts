// Where a configuration runs. The mode decides which overlay is laid over svc.yaml, and which environment files count.
export const MODES = ['development', 'test', 'staging', 'production'] as const;

export type Mode = (typeof MODES)[number];
