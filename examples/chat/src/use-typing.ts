// Users who are typing: those whose last message about it is recent. Clients do not report that they have stopped.
import { useCallback, useEffect, useRef, useState } from 'react';

const TYPING_LASTS_MS = 3_000;

export type Typing = {
  /** User ids. */
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
        setTimeout(() => remove(user), TYPING_LASTS_MS),
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
