import { Alert, Anchor, Button, Center, Code, Paper, PasswordInput, Stack, Text, Title } from '@mantine/core';
import { useEffect, useRef, useState, type FormEvent } from 'react';
import { errorMessage } from '../parts/states.tsx';
import { canSignInAutomatically, useSignIn } from '../session.ts';

export function SignIn({ localSignIn }: { localSignIn: boolean }) {
  const [secretKey, setSecretKey] = useState('');
  const signIn = useSignIn();
  const hasTried = useRef(false);

  // Under `svc dev` on the same machine, sign in automatically.
  useEffect(() => {
    if (!localSignIn || hasTried.current || !canSignInAutomatically()) return;
    hasTried.current = true;
    signIn.mutate({ kind: 'local' });
  }, [localSignIn, signIn]);

  const submit = (event: FormEvent): void => {
    event.preventDefault();
    signIn.mutate({ kind: 'key', secretKey: secretKey.trim() });
  };

  return (
    <Center component="main" mih="100dvh" p="md">
      <Paper withBorder p="xl" radius="md" w="100%" maw={420}>
        <form onSubmit={submit}>
          <Stack>
            <img src={`${import.meta.env.BASE_URL}icon.svg`} alt="" width={40} height={40} />
            <div>
              <Title order={1} size="h3">
                Sign in
              </Title>
              <Text c="dimmed" size="sm">
                Use the secret key of this project: <Code>SVC_SECRET_KEY</Code>, which <Code>svc dev</Code>{' '}
                writes to <Code>.env</Code>.
              </Text>
            </div>
            <PasswordInput
              label="Secret key"
              placeholder="svc_secret_…"
              autoComplete="current-password"
              autoFocus
              required
              value={secretKey}
              onChange={(event) => setSecretKey(event.currentTarget.value)}
            />
            {signIn.isError && (
              <Alert color="red" role="alert">
                {errorMessage(signIn.error)}
              </Alert>
            )}
            <Button type="submit" loading={signIn.isPending} disabled={secretKey.trim() === ''}>
              Sign in
            </Button>
            {localSignIn && (
              <Anchor
                component="button"
                type="button"
                size="sm"
                onClick={() => signIn.mutate({ kind: 'local' })}
              >
                Sign in without a key (on the machine that runs svc)
              </Anchor>
            )}
          </Stack>
        </form>
      </Paper>
    </Center>
  );
}
