// Modes of a configuration. The mode selects the overlay of svc.yaml and the environment files.
export const MODES = ['development', 'test', 'staging', 'production'] as const;

export type Mode = (typeof MODES)[number];
