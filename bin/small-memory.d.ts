export declare const SMALL_NURSERY: string;
export declare function memoryFlags(machine?: {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly execArgv?: readonly string[];
  /** Bytes; of the container. */
  readonly limit?: number;
  /** Bytes; of the machine. */
  readonly total?: number;
}): string[];
export declare function nurseryFlags(command: string | undefined): string[];
