import { Text } from '@mantine/core';
import { useMemo } from 'react';
import { Empty } from '../../parts/states.tsx';
import { LogList } from '../logs/log-list.tsx';
import { useLogStream } from '../logs/use-log-stream.ts';

export function FunctionLogs({ name }: { name: string }) {
  const { lines, state } = useLogStream();
  const own = useMemo(() => lines.filter((line) => line.functionName === name), [lines, name]);
  if (own.length === 0) {
    return (
      <Empty title={state === 'live' ? 'Nothing logged yet' : 'Waiting for the log …'}>
        Output of ctx.log and console appears here when the function is called.
      </Empty>
    );
  }
  return (
    <>
      <Text size="sm" c="dimmed" mb="xs">
        The last lines of this instance, newest last.
      </Text>
      <LogList lines={own} />
    </>
  );
}
