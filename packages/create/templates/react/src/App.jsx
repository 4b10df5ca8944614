import { useEffect, useState } from 'react';
import { client } from './client.js';
import { Notes } from './Notes.jsx';
import { SignIn } from './SignIn.jsx';

export function App() {
  const [session, setSession] = useState(undefined);

  useEffect(() => {
    const { data } = client.auth.onAuthStateChange((_event, next) => setSession(next));
    return () => data.subscription.unsubscribe();
  }, []);

  if (session === undefined) return null;
  return (
    <main>
      <header>
        <h1>Notes</h1>
        {session && <button onClick={() => client.auth.signOut()}>Sign out</button>}
      </header>
      {session ? <Notes /> : <SignIn />}
    </main>
  );
}
