// Computes messages per second from the difference between two responses.
import { useEffect, useRef, useState } from 'react';
import { formatCount } from '../../parts/format.tsx';
import type { RealtimeChannelInfo, RealtimeLive } from '../../../../src/dashboard-api/contract.ts';

export type Rates = {
  /** Undefined until there are two responses. */
  readonly all: number | undefined;
  /** Keyed by `channelKey`. */
  readonly channels: ReadonlyMap<string, number>;
};

type Sample = { readonly at: number; readonly all: number; readonly channels: ReadonlyMap<string, number> };

export function channelKey(channel: Pick<RealtimeChannelInfo, 'topic' | 'private'>): string {
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
      channels: new Map(live.channels.map((channel) => [channelKey(channel), channel.delivered])),
    };
    const before = last.current;
    last.current = now;
    if (!before || at <= before.at) return;
    const seconds = (at - before.at) / 1_000;
    // Counters of a reopened channel or a restarted instance start at zero.
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
