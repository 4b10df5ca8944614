export declare function keepEnvironmentPrivate(flags?: readonly string[]): void;
/** What the environment of a process may show (`kept`), and what it must not (`hidden`). */
export declare function splitEnvironment(env: Readonly<Record<string, string | undefined>>): {
  readonly kept: Readonly<Record<string, string>>;
  readonly hidden: Readonly<Record<string, string>>;
};
