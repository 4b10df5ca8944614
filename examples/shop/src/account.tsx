// The visitor's account: none, a guest with a basket, or a customer.
import { useState, type FormEvent, type JSX } from 'react';
import type { User } from '@supabase/supabase-js';
import { supabase, fieldText } from './client.ts';

export function Account({ user }: { readonly user: User | null }): JSX.Element {
  const [isNew, setIsNew] = useState(true);
  const [problem, setProblem] = useState<string>();

  if (user && !user.is_anonymous)
    return (
      <p className="line">
        <span className="name">{user.email}</span>
        <button type="button" className="quiet" onClick={() => void supabase.auth.signOut()}>
          Sign out
        </button>
      </p>
    );

  const submit = async (event: FormEvent<HTMLFormElement>): Promise<void> => {
    event.preventDefault();
    const form = event.currentTarget;
    const credentials = { email: fieldText(form, 'email'), password: fieldText(form, 'password') };
    // A guest who creates an account keeps the user id, and therefore the basket.
    const { error } = !isNew
      ? await supabase.auth.signInWithPassword(credentials)
      : user
        ? await supabase.auth.updateUser(credentials)
        : await supabase.auth.signUp(credentials);
    // The claim `is_anonymous` changes only with the next token.
    if (!error && isNew && user) await supabase.auth.refreshSession();
    setProblem(error?.message);
  };

  return (
    <form onSubmit={(event) => void submit(event)} aria-label="Account">
      <label>
        Email
        <input name="email" type="email" required autoComplete="email" />
      </label>
      <label>
        Password
        <input
          name="password"
          type="password"
          required
          minLength={8}
          autoComplete={isNew ? 'new-password' : 'current-password'}
        />
      </label>
      {problem !== undefined && <p role="alert">{problem}</p>}
      <p className="line">
        <button type="submit">{isNew ? 'Make an account' : 'Sign in'}</button>
        <button type="button" className="quiet" onClick={() => setIsNew(!isNew)}>
          {isNew ? 'I have one' : 'I have none yet'}
        </button>
      </p>
    </form>
  );
}
