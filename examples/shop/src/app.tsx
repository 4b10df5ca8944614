import { useCallback, useEffect, useState, type JSX } from 'react';
import type { User } from '@supabase/supabase-js';
import { Account } from './account.tsx';
import { Basket } from './basket.tsx';
import { supabase } from './client.ts';
import { Orders } from './orders.tsx';
import { Products } from './products.tsx';
import { NewProduct } from './staff.tsx';
import { useChanges } from './use-changes.ts';

export function App(): JSX.Element {
  // Undefined until the session has been loaded, null without a user.
  const [user, setUser] = useState<User | null>();
  const [isStaff, setIsStaff] = useState(false);
  /** Incremented when the user changes the basket. */
  const [baskets, setBaskets] = useState(0);
  const changes = useChanges(user?.id);

  useEffect(() => {
    const { data } = supabase.auth.onAuthStateChange((event, session) => {
      // A guest who has just created an account still has the token of a guest. The next event has a new one.
      if (event !== 'USER_UPDATED') setUser(session?.user ?? null);
    });
    return () => data.subscription.unsubscribe();
  }, []);

  useEffect(() => {
    let isOld = false;
    setIsStaff(false);
    if (user?.id !== undefined)
      void supabase.rpc('is_staff').then(({ data }) => {
        if (!isOld) setIsStaff(data === true);
      });
    return () => {
      isOld = true;
    };
  }, [user?.id]);

  const touched = useCallback(() => setBaskets((before) => before + 1), []);

  if (user === undefined) return <main aria-busy="true" />;
  return (
    <div className="app">
      <main>
        <Products isStaff={isStaff} changes={changes} isGuest={user === null} onBasket={touched} />
        {isStaff && <NewProduct />}
      </main>
      <aside>
        <Account user={user} />
        {user && (
          <>
            <Basket user={user} changes={baskets + changes} onBasket={touched} />
            {user.is_anonymous !== true && <Orders isStaff={isStaff} changes={changes} />}
          </>
        )}
      </aside>
    </div>
  );
}
