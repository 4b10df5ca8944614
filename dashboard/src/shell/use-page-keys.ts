import { useNavigate } from '@tanstack/react-router';
import { useEffect } from 'react';
import { PAGES } from './pages.ts';

const CHORD_MS = 1_200;

/**
 * Handles shortcuts: `g` and a letter open a page, `/` focuses its search, `?` shows the shortcuts. Ignored in text
 * fields.
 */
export function usePageKeys(onHelp: () => void): void {
  const navigate = useNavigate();
  useEffect(() => {
    let chordUntil = 0;
    const onKey = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (document.querySelector('[role="dialog"]')) return;
      if (event.key === 'g') {
        chordUntil = event.timeStamp + CHORD_MS;
        return;
      }
      if (event.timeStamp < chordUntil) {
        chordUntil = 0;
        const page = PAGES.find(({ key }) => key === event.key);
        if (page) void navigate({ to: page.path });
        return;
      }
      if (event.key === '?') onHelp();
      const search = event.key === '/' ? document.querySelector<HTMLElement>('[data-page-search]') : null;
      if (search) {
        event.preventDefault();
        search.focus();
      }
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, [navigate, onHelp]);
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}
