export declare function keepEnvironmentPrivate(flags?: readonly string[]): void;
/** Splits an environment into variables that a process can show (`kept`) and secrets (`hidden`). */
export declare function splitEnvironment(env: Readonly<Record<string, string | undefined>>): {
  readonly kept: Readonly<Record<string, string>>;
  readonly hidden: Readonly<Record<string, string>>;
};
