// Streams the log of the service. A broken stream is reopened after the last received line. The list is bounded,
// because a page may stay open for days.
import { useCallback, useEffect, useRef, useState } from 'react';
import type { LogLine } from '../../../../src/dashboard-api/contract.ts';
import { apiUrl } from '../../api.ts';

const MAX_LINES = 5_000;
const REOPEN_MS = 1_500;
/** Lines arrive in bursts and are rendered together. */
const DRAW_EVERY_MS = 100;

export type LogStream = {
  lines: readonly LogLine[];
  state: 'connecting' | 'live' | 'broken';
  /** Number of lines received while the list was paused. */
  held: number;
  clear: () => void;
};

export function useLogStream(isHeld = false): LogStream {
  const [lines, setLines] = useState<readonly LogLine[]>([]);
  const [state, setState] = useState<LogStream['state']>('connecting');
  const [held, setHeld] = useState(0);
  const waiting = useRef<LogLine[]>([]);
  const holding = useRef(isHeld);

  const draw = useCallback(() => {
    if (waiting.current.length === 0) return;
    if (holding.current) {
      waiting.current = waiting.current.slice(-MAX_LINES);
      setHeld(waiting.current.length);
      return;
    }
    const fresh = waiting.current;
    waiting.current = [];
    setHeld(0);
    setLines((shown) => [...shown, ...fresh].slice(-MAX_LINES));
  }, []);

  useEffect(() => {
    holding.current = isHeld;
    draw();
  }, [isHeld, draw]);

  useEffect(() => {
    let last = 0;
    let source: EventSource | undefined;
    let reopen: ReturnType<typeof setTimeout> | undefined;
    const open = (): void => {
      source = new EventSource(apiUrl(`/logs/stream?after=${last}`));
      source.onopen = () => setState('live');
      source.onmessage = ({ data }: MessageEvent<string>) => {
        const line = JSON.parse(data) as LogLine;
        // Sequence numbers restart when the service restarts.
        last = line.seq;
        waiting.current.push(line);
      };
      source.onerror = () => {
        // The browser would reconnect to the initial URL and receive old lines again.
        source?.close();
        setState('broken');
        reopen = setTimeout(open, REOPEN_MS);
      };
    };
    open();
    const drawing = setInterval(draw, DRAW_EVERY_MS);
    return () => {
      source?.close();
      clearTimeout(reopen);
      clearInterval(drawing);
    };
  }, [draw]);

  const clear = useCallback(() => {
    waiting.current = [];
    setHeld(0);
    setLines([]);
  }, []);
  return { lines, state, held, clear };
}
