import { useState, type FormEvent, type JSX } from 'react';
import { supabase, fieldText } from './client.ts';

export function SignIn(): JSX.Element {
  const [isNew, setIsNew] = useState(true);
  const [problem, setProblem] = useState<string>();

  const submit = async (event: FormEvent<HTMLFormElement>): Promise<void> => {
    event.preventDefault();
    const form = event.currentTarget;
    const credentials = { email: fieldText(form, 'email'), password: fieldText(form, 'password') };
    const { error } = isNew
      ? await supabase.auth.signUp({ ...credentials, options: { data: { name: fieldText(form, 'name') } } })
      : await supabase.auth.signInWithPassword(credentials);
    setProblem(error?.message);
  };

  return (
    <main className="sign-in">
      <form onSubmit={(event) => void submit(event)}>
        <h1>Team documents</h1>
        {isNew && (
          <label>
            Name
            <input name="name" required maxLength={40} autoComplete="nickname" />
          </label>
        )}
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
        <button type="submit" className="primary">
          {isNew ? 'Create an account' : 'Sign in'}
        </button>
        <button type="button" className="quiet" onClick={() => setIsNew(!isNew)}>
          {isNew ? 'I have an account' : 'I have no account yet'}
        </button>
      </form>
    </main>
  );
}
