// Watches a channel as a chosen caller. A broken stream is reopened, which joins again. A stream that the service
// ended, by rejecting the join or closing the channel, is over.
import { useCallback, useEffect, useRef, useState } from 'react';
import type { CallerName, WatchedFrame } from '../../../../src/dashboard-api/contract.ts';
import { apiUrl } from '../../api.ts';

const MAX_FRAMES = 1_000;
const REOPEN_MS = 1_500;
/** Messages arrive in bursts and are rendered together. */
const DRAW_EVERY_MS = 100;

export type Watched = {
  readonly caller: CallerName;
  readonly topic: string;
  readonly private: boolean;
  readonly tables: readonly string[];
};

export type ShownFrame = WatchedFrame & { readonly number: number };

export type WatchState = 'idle' | 'joining' | 'joined' | 'refused' | 'closed' | 'broken';

export type Watch = {
  readonly frames: readonly ShownFrame[];
  readonly state: WatchState;
  /** The current channel, or the last one. */
  readonly watched: Watched | undefined;
  readonly join: (watched: Watched) => void;
  readonly leave: () => void;
  readonly clear: () => void;
};

export function useWatch(): Watch {
  const [frames, setFrames] = useState<readonly ShownFrame[]>([]);
  const [state, setState] = useState<WatchState>('idle');
  const [watched, setWatched] = useState<Watched>();
  const waiting = useRef<ShownFrame[]>([]);
  const count = useRef(0);
  const stop = useRef<() => void>(() => {});

  useEffect(() => {
    const drawing = setInterval(() => {
      if (waiting.current.length === 0) return;
      const fresh = waiting.current;
      waiting.current = [];
      setFrames((shown) => [...shown, ...fresh].slice(-MAX_FRAMES));
    }, DRAW_EVERY_MS);
    return () => {
      clearInterval(drawing);
      stop.current();
    };
  }, []);

  const join = useCallback((wanted: Watched) => {
    stop.current();
    waiting.current = [];
    setFrames([]);
    setWatched(wanted);
    let source: EventSource | undefined;
    let reopen: ReturnType<typeof setTimeout> | undefined;
    const open = (): void => {
      setState('joining');
      let isOver = false;
      source = new EventSource(apiUrl(`/realtime/watch?${watchQuery(wanted)}`));
      source.onmessage = ({ data }: MessageEvent<string>) => {
        const frame = JSON.parse(data) as WatchedFrame;
        count.current += 1;
        waiting.current.push({ ...frame, number: count.current });
        if (frame.event === 'phx_reply') {
          isOver = !isAccepted(frame);
          setState(isOver ? 'refused' : 'joined');
        } else if (frame.event === 'phx_close') {
          isOver = true;
          setState('closed');
        }
      };
      source.onerror = () => {
        // The browser would reconnect automatically, also after a rejected join.
        source?.close();
        if (isOver) return;
        setState('broken');
        reopen = setTimeout(open, REOPEN_MS);
      };
    };
    stop.current = () => {
      source?.close();
      clearTimeout(reopen);
    };
    open();
  }, []);

  const leave = useCallback(() => {
    stop.current();
    setState('idle');
  }, []);

  const clear = useCallback(() => {
    waiting.current = [];
    setFrames([]);
  }, []);

  return { frames, state, watched, join, leave, clear };
}

export function isAccepted({ payload }: WatchedFrame): boolean {
  return typeof payload === 'object' && payload !== null && Reflect.get(payload, 'status') === 'ok';
}

function watchQuery({ caller, topic, private: isPrivate, tables }: Watched): string {
  return new URLSearchParams([
    ['caller', caller],
    ['topic', topic],
    ['private', String(isPrivate)],
    ...tables.map((table) => ['table', table]),
  ]).toString();
}
