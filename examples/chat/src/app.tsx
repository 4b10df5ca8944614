import { useEffect, useState, type JSX } from 'react';
import type { Session } from '@supabase/supabase-js';
import { Chat } from './chat.tsx';
import { supabase } from './client.ts';
import { SignIn } from './sign-in.tsx';

export function App(): JSX.Element {
  // Undefined until the session has been loaded.
  const [session, setSession] = useState<Session | null>();

  useEffect(() => {
    const { data } = supabase.auth.onAuthStateChange((_event, changed) => setSession(changed));
    return () => data.subscription.unsubscribe();
  }, []);

  if (session === undefined) return <main aria-busy="true" />;
  if (session === null) return <SignIn />;
  return <Chat key={session.user.id} me={session.user} />;
}
