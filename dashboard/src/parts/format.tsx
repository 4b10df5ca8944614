// Formats numbers, sizes and times for display.
import { Text, Tooltip } from '@mantine/core';

const BYTES = ['B', 'KB', 'MB', 'GB', 'TB'];

/** Formats `12.3 MB`. Uses powers of 1,024, so that `5MB` in the file is displayed as 5 MB. */
export function formatBytes(bytes: number): string {
  const power = bytes < 1 ? 0 : Math.min(Math.floor(Math.log2(bytes) / 10), BYTES.length - 1);
  const value = bytes / 1024 ** power;
  return `${Number(value >= 100 ? value.toFixed(0) : value.toFixed(1))} ${BYTES[power]}`;
}

export function formatCount(count: number): string {
  return count.toLocaleString('en-US');
}

const UNITS: ReadonlyArray<readonly [Intl.RelativeTimeFormatUnit, number]> = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
];

export function formatAgo(iso: string, now: number = Date.now()): string {
  const elapsed = new Date(iso).getTime() - now;
  const [unit, size] =
    UNITS.find(([, length]) => Math.abs(elapsed) >= length) ?? (['second', 1_000] as const);
  return new Intl.RelativeTimeFormat('en', { numeric: 'auto' }).format(Math.trunc(elapsed / size), unit);
}

/** Shows "3 minutes ago", with the exact time in a tooltip. */
export function Ago({ time }: { time: string | null }) {
  if (time === null)
    return (
      <Text span inherit c="dimmed">
        never
      </Text>
    );
  return (
    <Tooltip label={new Date(time).toLocaleString()}>
      <time dateTime={time}>{formatAgo(time)}</time>
    </Tooltip>
  );
}

/** Formats `0.4 ms`, `12 s`, `3 h 20 min` with the two most significant units. */
export function formatDuration(milliseconds: number): string {
  if (milliseconds < 10) return `${milliseconds.toFixed(1)} ms`;
  if (milliseconds < 1_000) return `${Math.round(milliseconds)} ms`;
  const seconds = Math.floor(milliseconds / 1_000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 24 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}
