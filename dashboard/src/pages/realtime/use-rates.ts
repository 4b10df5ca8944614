// Messages a second, from what the counters have grown by between two answers.
import { useEffect, useRef, useState } from 'react';
import { formatCount } from '../../parts/format.tsx';
import type { RealtimeChannelInfo, RealtimeLive } from '../../../../src/dashboard-api/contract.ts';

export type Rates = {
  /** Undefined until there are two answers. */
  readonly all: number | undefined;
  /** By `keyOf`. */
  readonly channels: ReadonlyMap<string, number>;
};

type Sample = { readonly at: number; readonly all: number; readonly channels: ReadonlyMap<string, number> };

export function keyOf(channel: Pick<RealtimeChannelInfo, 'topic' | 'private'>): string {
  return `${channel.private ? 'private' : 'public'}:${channel.topic}`;
}

/** `3.5/s` */
export function formatRate(rate: number): string {
  return `${rate < 10 ? Number(rate.toFixed(1)) : formatCount(Math.round(rate))}/s`;
}

export function useRates(live: RealtimeLive | undefined, at: number): Rates {
  const last = useRef<Sample>(undefined);
  const [rates, setRates] = useState<Rates>({ all: undefined, channels: new Map() });
  useEffect(() => {
    if (!live) return;
    const now: Sample = {
      at,
      all: live.instances.reduce((sum, { delivered }) => sum + delivered, 0),
      channels: new Map(live.channels.map((channel) => [keyOf(channel), channel.delivered])),
    };
    const before = last.current;
    last.current = now;
    if (!before || at <= before.at) return;
    const seconds = (at - before.at) / 1_000;
    // A channel, or an instance, that has begun anew counts from the beginning.
    const rate = (value: number, earlier: number): number => Math.max(0, value - earlier) / seconds;
    setRates({
      all: rate(now.all, before.all),
      channels: new Map(
        [...now.channels].map(([key, value]) => [key, rate(value, before.channels.get(key) ?? value)]),
      ),
    });
  }, [live, at]);
  return rates;
}
