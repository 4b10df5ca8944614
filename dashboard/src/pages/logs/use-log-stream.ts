// The service's log as it is written. The stream is opened again after every break, from the last line that came;
// the list is bounded, because a page may be left open for days.
import { useCallback, useEffect, useRef, useState } from 'react';
import type { LogLine } from '../../../../src/dashboard-api/contract.ts';
import { apiUrl } from '../../api.ts';

const MOST_LINES = 5_000;
const REOPEN_MS = 1_500;
/** Lines come in bursts: they are drawn together. */
const DRAW_EVERY_MS = 100;

export type LogStream = {
  lines: readonly LogLine[];
  state: 'connecting' | 'live' | 'broken';
  /** How many came since the list was held. */
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
      waiting.current = waiting.current.slice(-MOST_LINES);
      setHeld(waiting.current.length);
      return;
    }
    const fresh = waiting.current;
    waiting.current = [];
    setHeld(0);
    setLines((shown) => [...shown, ...fresh].slice(-MOST_LINES));
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
        // A restarted service counts from the beginning: its lines are new ones.
        last = line.seq;
        waiting.current.push(line);
      };
      source.onerror = () => {
        // The browser would ask the first address again, with lines that came long ago.
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
