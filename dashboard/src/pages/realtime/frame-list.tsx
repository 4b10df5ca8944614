// Lists messages in order of arrival. The list follows its end until the user scrolls up.
import { Code } from '@mantine/core';
import { useEffect, useRef, useState } from 'react';
import { Copy } from '../../parts/copy.tsx';
import { formatBytes } from '../../parts/format.tsx';
import { summarizeFrame } from './frame-summary.ts';
import classes from './realtime.module.css';
import type { ShownFrame } from './use-watch.ts';

const NEAR_END = 40;

export function FrameList({ frames }: { frames: readonly ShownFrame[] }) {
  const region = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const newest = frames.at(-1)?.number;
  useEffect(() => {
    if (follows.current && region.current) region.current.scrollTop = region.current.scrollHeight;
  }, [newest]);
  return (
    <div
      ref={region}
      className={classes['frames']}
      tabIndex={0}
      role="region"
      aria-label="Messages"
      onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
        follows.current = scrollHeight - scrollTop - clientHeight < NEAR_END;
      }}
    >
      {frames.map((frame) => (
        <Frame key={frame.number} frame={frame} />
      ))}
    </div>
  );
}

function Frame({ frame }: { frame: ShownFrame }) {
  const [isOpen, setOpen] = useState(false);
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (isOpen) element.current?.scrollIntoView({ block: 'nearest' });
  }, [isOpen]);
  const { kind, title, text } = summarizeFrame(frame);
  const whole = JSON.stringify(frame.payload, null, 2);
  return (
    <div ref={element} className={classes['frame']}>
      <button
        type="button"
        className={classes['line']}
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      >
        <time dateTime={frame.time} className={classes['time']}>
          {new Date(frame.time).toLocaleTimeString([], { hour12: false })}
        </time>
        <span className={classes['title']} data-kind={kind}>
          {title}
        </span>
        <span className={classes['text']} data-kind={kind}>
          {text}
        </span>
        <span className={classes['size']}>{formatBytes(frame.bytes)}</span>
      </button>
      {isOpen && (
        <div className={classes['whole']}>
          <Code block className={classes['json']}>
            {`${frame.event}\n${whole}`}
          </Code>
          <Copy value={whole} label="message" />
        </div>
      )}
    </div>
  );
}
