import { useState } from 'react';
import { client } from './client.js';

export function SignIn() {
  const [error, setError] = useState(null);

  async function submit(event) {
    event.preventDefault();
    const { email, password } = Object.fromEntries(new FormData(event.target));
    const isNew = event.nativeEvent.submitter.value === 'up';
    const { error: failure } = isNew
      ? await client.auth.signUp({ email, password })
      : await client.auth.signInWithPassword({ email, password });
    setError(failure?.message ?? null);
  }

  return (
    <form onSubmit={submit}>
      <label>
        E-mail
        <input name="email" type="email" autoComplete="email" required />
      </label>
      <label>
        Password
        <input name="password" type="password" autoComplete="current-password" required />
      </label>
      {error && <p role="alert">{error}</p>}
      <footer>
        <button value="in">Sign in</button>
        <button value="up">Sign up</button>
      </footer>
    </form>
  );
}
