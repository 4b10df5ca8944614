// Uploads files one after the other, with progress and cancellation.
import { useQueryClient } from '@tanstack/react-query';
import { useCallback, useEffect, useRef, useState } from 'react';
import { ApiProblem, upload } from '../../api.ts';
import { uploadPath, type Place } from './objects.ts';
import { refreshEntries } from './refresh-entries.ts';

export type UploadState = {
  id: number;
  file: File;
  /** Fraction that has been sent, from 0 to 1. */
  sent: number;
  state: 'waiting' | 'sending' | 'done' | 'cancelled' | 'refused';
  error: unknown;
};

export function useUploads(place: Place) {
  const queries = useQueryClient();
  const [uploads, setUploads] = useState<readonly UploadState[]>([]);
  const aborts = useRef(new Map<number, AbortController>());
  const queue = useRef(Promise.resolve());
  const nextId = useRef(1);

  const change = useCallback((id: number, changes: Partial<UploadState>) => {
    setUploads((all) => all.map((upload) => (upload.id === id ? { ...upload, ...changes } : upload)));
  }, []);

  const run = useCallback(
    async (id: number, file: File, replaces: boolean): Promise<void> => {
      const abort = aborts.current.get(id);
      if (!abort || abort.signal.aborted) return;
      change(id, { state: 'sending', sent: 0, error: undefined });
      try {
        await upload(uploadPath(place, place.folder + file.name), file, {
          headers: {
            'content-type': file.type === '' ? 'application/octet-stream' : file.type,
            ...(replaces ? { 'x-upsert': 'true' } : {}),
          },
          signal: abort.signal,
          onProgress: (sent) => change(id, { sent }),
        });
        change(id, { state: 'done', sent: 1 });
        await refreshEntries(queries);
      } catch (error) {
        if (!abort.signal.aborted) change(id, { state: 'refused', error });
      }
    },
    [change, place, queries],
  );

  const enqueue = useCallback(
    (id: number, file: File, replaces: boolean) => {
      aborts.current.set(id, new AbortController());
      queue.current = queue.current.then(() => run(id, file, replaces));
    },
    [run],
  );

  const add = useCallback(
    (files: readonly File[]) => {
      const added = files.map((file): UploadState => ({
        id: nextId.current++,
        file,
        sent: 0,
        state: 'waiting',
        error: undefined,
      }));
      setUploads((all) => [...all, ...added]);
      for (const { id, file } of added) enqueue(id, file, false);
    },
    [enqueue],
  );

  /** Overwrites the existing file after an upload was rejected because of it. */
  const replace = useCallback(
    ({ id, file }: UploadState) => {
      change(id, { state: 'waiting', error: undefined });
      enqueue(id, file, true);
    },
    [change, enqueue],
  );

  const cancel = useCallback(
    (id: number) => {
      aborts.current.get(id)?.abort();
      change(id, { state: 'cancelled' });
    },
    [change],
  );

  const clear = useCallback(() => {
    setUploads((all) => all.filter(({ state }) => state === 'waiting' || state === 'sending'));
  }, []);

  useEffect(() => {
    const running = aborts.current;
    return () => {
      for (const abort of running.values()) abort.abort();
    };
  }, []);

  return { uploads, add, replace, cancel, clear };
}

export function isTaken(error: unknown): boolean {
  return error instanceof ApiProblem && (error.status === 409 || /already exists/i.test(error.message));
}
