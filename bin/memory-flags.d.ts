export declare const YOUNG_HEAP_LIMIT: string;
export declare function restartFlags(process?: {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly execArgv?: readonly string[];
}): string[];
export declare function runtimeFlags(command: string | undefined): string[];
