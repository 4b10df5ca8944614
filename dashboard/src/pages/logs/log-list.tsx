// Virtual list of log lines. It follows the end until the user scrolls up.
import { Box, Code } from '@mantine/core';
import { useVirtualizer } from '@tanstack/react-virtual';
import { useEffect, useRef, useState } from 'react';
import type { LogLine } from '../../../../src/dashboard-api/contract.ts';
import { Copy } from '../../parts/copy.tsx';
import classes from './log-list.module.css';

const LINE_HEIGHT = 26;
const NEAR_END = 40;

export function LogList({ lines }: { lines: readonly LogLine[] }) {
  const frame = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const rows = useVirtualizer({
    count: lines.length,
    getScrollElement: () => frame.current,
    estimateSize: () => LINE_HEIGHT,
    getItemKey: (index) => lineKey(lines[index]),
    overscan: 12,
  });
  const end = lines.at(-1);
  useEffect(() => {
    if (follows.current && lines.length > 0) rows.scrollToIndex(lines.length - 1, { align: 'end' });
  }, [rows, lines.length, end]);
  const toggle = (key: string): void => {
    setOpen((shown) => {
      const next = new Set(shown);
      if (!next.delete(key)) next.add(key);
      return next;
    });
  };
  return (
    <Box
      ref={frame}
      className={classes['frame']}
      tabIndex={0}
      role="region"
      aria-label="Log lines"
      onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
        follows.current = scrollHeight - scrollTop - clientHeight < NEAR_END;
      }}
    >
      <Box pos="relative" style={{ height: rows.getTotalSize() }}>
        {rows.getVirtualItems().map((row) => {
          const line = lines[row.index];
          if (!line) return null;
          const key = lineKey(line);
          return (
            <div
              key={row.key}
              ref={rows.measureElement}
              data-index={row.index}
              className={classes['row']}
              style={{ transform: `translateY(${row.start}px)` }}
            >
              <Line line={line} isOpen={open.has(key)} onToggle={() => toggle(key)} />
            </div>
          );
        })}
      </Box>
    </Box>
  );
}

function lineKey(line: LogLine | undefined): string {
  return line === undefined ? '' : `${line.seq} ${line.time}`;
}

function Line({ line, isOpen, onToggle }: { line: LogLine; isOpen: boolean; onToggle: () => void }) {
  const fields = JSON.stringify(line.fields, null, 2);
  return (
    <>
      <button type="button" className={classes['line']} aria-expanded={isOpen} onClick={onToggle}>
        <time dateTime={line.time} className={classes['time']}>
          {clock(line.time)}
        </time>
        <span className={classes['level']} data-level={line.level}>
          {line.level}
        </span>
        <span className={classes['source']}>{line.functionName ?? line.source}</span>
        <span className={classes['message']}>{line.message}</span>
      </button>
      {isOpen && (
        <div className={classes['fields']}>
          <Code block className={classes['json']}>
            {`${new Date(line.time).toLocaleString()}\n${line.message}\n${fields}`}
          </Code>
          <Copy value={JSON.stringify(line, null, 2)} label="line" />
        </div>
      )}
    </>
  );
}

function clock(iso: string): string {
  const time = new Date(iso);
  const pad = (value: number, length = 2): string => String(value).padStart(length, '0');
  const [hours, minutes, seconds] = [time.getHours(), time.getMinutes(), time.getSeconds()];
  return `${pad(hours)}:${pad(minutes)}:${pad(seconds)}.${pad(time.getMilliseconds(), 3)}`;
}
