// Who is typing: whoever said so in the last seconds. Nobody says that they have stopped.
import { useCallback, useEffect, useRef, useState } from 'react';

const LASTS_MS = 3_000;

export type Typing = {
  /** Ids of users. */
  readonly typing: ReadonlySet<string>;
  readonly add: (user: string) => void;
  readonly remove: (user: string) => void;
};

export function useTyping(): Typing {
  const [typing, setTyping] = useState<ReadonlySet<string>>(new Set());
  const timers = useRef(new Map<string, ReturnType<typeof setTimeout>>());

  const remove = useCallback((user: string): void => {
    clearTimeout(timers.current.get(user));
    timers.current.delete(user);
    setTyping(new Set(timers.current.keys()));
  }, []);

  const add = useCallback(
    (user: string): void => {
      clearTimeout(timers.current.get(user));
      timers.current.set(
        user,
        setTimeout(() => remove(user), LASTS_MS),
      );
      setTyping(new Set(timers.current.keys()));
    },
    [remove],
  );

  useEffect(() => {
    const running = timers.current;
    return () => {
      for (const timer of running.values()) clearTimeout(timer);
      running.clear();
    };
  }, []);

  return { typing, add, remove };
}
