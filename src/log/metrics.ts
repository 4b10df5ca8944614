// Numbers about a running process in the text format of Prometheus. A recorder is handed down, never global. Labels
// come from fixed lists (methods, routes, states), never from what a caller sends: each new value is kept for ever.

export type Labels = Readonly<Record<string, string>>;

/** Computed on each request for the metrics only. */
export type Reading = { readonly labels?: Labels; readonly value: number };

type Series = (lines: string[]) => void;

export class Metrics {
  readonly #series: Series[] = [];

  /** Counts what it is given in buckets; `bounds` are their upper ends, ascending. */
  histogram(name: string, help: string, bounds: readonly number[]): Histogram {
    const histogram = new Histogram(name, bounds);
    this.#add(name, 'histogram', help, (lines) => histogram.write(lines));
    return histogram;
  }

  /** Counts events by their labels. */
  counter(name: string, help: string): Counter {
    const counter = new Counter(name);
    this.#add(name, 'counter', help, (lines) => counter.write(lines));
    return counter;
  }

  /** `read` is called for each text; a counter only ever grows. */
  read(name: string, type: 'gauge' | 'counter', help: string, read: () => number | readonly Reading[]): void {
    this.#add(name, type, help, (lines) => {
      const readings = read();
      for (const { labels, value } of typeof readings === 'number' ? [{ value: readings }] : readings) {
        lines.push(`${name}${written(labels)} ${value}`);
      }
    });
  }

  text(): string {
    const lines: string[] = [];
    for (const write of this.#series) write(lines);
    return `${lines.join('\n')}\n`;
  }

  #add(name: string, type: string, help: string, write: Series): void {
    this.#series.push((lines) => {
      lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`);
      write(lines);
    });
  }
}

/** Maximum number of series of one name. Further label values share a series whose labels state this. */
const MAX_SERIES = 1_000;
const REST = '{other}';

/** Values by set of labels. Labels are created once per key, because this code runs for every request. */
class ByLabels<T> {
  readonly #make: (labels: Labels) => T;
  readonly #kept = new Map<string, T>();

  constructor(make: (labels: Labels) => T) {
    this.#make = make;
  }

  get(key: string, labels: () => Labels): T {
    return this.#kept.get(key) ?? this.#add(key, labels());
  }

  get all(): Iterable<T> {
    return this.#kept.values();
  }

  #add(key: string, labels: Labels): T {
    if (this.#kept.size < MAX_SERIES) return this.#keep(key, labels);
    return (
      this.#kept.get(REST) ??
      this.#keep(
        REST,
        mapValues(labels, () => REST),
      )
    );
  }

  #keep(key: string, labels: Labels): T {
    const series = this.#make(labels);
    this.#kept.set(key, series);
    return series;
  }
}

export class Counter {
  readonly #name: string;
  readonly #counts = new ByLabels((labels) => ({ labels, value: 0 }));

  constructor(name: string) {
    this.#name = name;
  }

  /** `key` identifies the labels. */
  add(key: string, labels: () => Labels, by = 1): void {
    this.#counts.get(key, labels).value += by;
  }

  write(lines: string[]): void {
    for (const { labels, value } of this.#counts.all) lines.push(`${this.#name}${written(labels)} ${value}`);
  }
}

type Counts = { readonly labels: Labels; readonly buckets: number[]; sum: number; count: number };

export class Histogram {
  readonly #name: string;
  readonly #bounds: readonly number[];
  readonly #counts: ByLabels<Counts>;

  constructor(name: string, bounds: readonly number[]) {
    this.#name = name;
    this.#bounds = bounds;
    this.#counts = new ByLabels((labels) => ({ labels, buckets: bounds.map(() => 0), sum: 0, count: 0 }));
  }

  /** `key` identifies the labels. */
  observe(key: string, value: number, labels: () => Labels): void {
    const counts = this.#counts.get(key, labels);
    counts.sum += value;
    counts.count += 1;
    const bucket = this.#bounds.findIndex((bound) => value <= bound);
    if (bucket >= 0) counts.buckets[bucket] = (counts.buckets[bucket] ?? 0) + 1;
  }

  write(lines: string[]): void {
    for (const { labels, buckets, sum, count } of this.#counts.all) {
      let upTo = 0;
      for (const [index, bound] of this.#bounds.entries()) {
        upTo += buckets[index] ?? 0;
        lines.push(`${this.#name}_bucket${written({ ...labels, le: String(bound) })} ${upTo}`);
      }
      lines.push(`${this.#name}_bucket${written({ ...labels, le: '+Inf' })} ${count}`);
      lines.push(
        `${this.#name}_sum${written(labels)} ${sum}`,
        `${this.#name}_count${written(labels)} ${count}`,
      );
    }
  }
}

function mapValues(labels: Labels, to: (value: string) => string): Labels {
  return Object.fromEntries(Object.entries(labels).map(([name, value]) => [name, to(value)]));
}

function written(labels: Labels = {}): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

function escaped(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
