// Frame around every page: header, navigation and keyboard shortcuts.
import {
  ActionIcon,
  Alert,
  AppShell,
  Badge,
  Burger,
  Center,
  Group,
  List,
  Loader,
  NavLink,
  ScrollArea,
  Text,
  Title,
  Tooltip,
  useComputedColorScheme,
  useMantineColorScheme,
} from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconKeyboard, IconLogout, IconMoon, IconSun } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { Link, Outlet, useLocation } from '@tanstack/react-router';
import { useEffect } from 'react';
import type { Session } from '../../../src/dashboard-api/contract.ts';
import { Failure } from '../parts/states.tsx';
import { sessionQuery, useSignOut } from '../session.ts';
import { KeyboardHelp } from './keyboard-help.tsx';
import { PAGES, type PageEntry } from './pages.ts';
import { SignIn } from './sign-in.tsx';
import { usePageKeys } from './use-page-keys.ts';

export function Frame() {
  const session = useQuery(sessionQuery);
  if (session.isPending) {
    return (
      <Center h="100dvh">
        <Loader role="status" aria-label="Loading" />
      </Center>
    );
  }
  if (session.isError) {
    return (
      <Center h="100dvh" p="md">
        <Failure error={session.error} onRetry={() => void session.refetch()} />
      </Center>
    );
  }
  if (!session.data.signedIn) return <SignIn localSignIn={session.data.localSignIn} />;
  return <SignedIn session={session.data} />;
}

function SignedIn({ session }: { session: Session }) {
  const [isOpen, menu] = useDisclosure(false);
  const [isHelpOpen, help] = useDisclosure(false);
  const { pathname } = useLocation();
  const current = currentPage(pathname);
  const name = session.project?.name ?? 'svc';
  usePageKeys(help.open);
  useEffect(() => {
    document.title = current ? `${current.name} · ${name}` : name;
  }, [current, name]);

  return (
    <AppShell
      header={{ height: 48 }}
      navbar={{ width: 216, breakpoint: 'sm', collapsed: { mobile: !isOpen } }}
      padding={{ base: 'sm', sm: 'lg' }}
    >
      <a href="#content" className="visually-hidden">
        Skip to the page
      </a>
      <AppShell.Header>
        <Group h="100%" px="md" gap="sm" wrap="nowrap" justify="space-between">
          <Group gap="sm" wrap="nowrap" miw={0}>
            <Burger
              opened={isOpen}
              onClick={menu.toggle}
              hiddenFrom="sm"
              size="sm"
              aria-label={isOpen ? 'Close the navigation' : 'Open the navigation'}
            />
            <img src={`${import.meta.env.BASE_URL}icon.svg`} alt="" width={24} height={24} />
            <Title order={1} size="h5" className="truncate">
              {name}
            </Title>
            {session.project?.dev === true && <Badge variant="light">dev</Badge>}
            {session.mode === 'readonly' && (
              <Tooltip label="Started without --dashboard readwrite: nothing can be changed here" withArrow>
                <Badge variant="light" color="gray">
                  read only
                </Badge>
              </Tooltip>
            )}
          </Group>
          <HeaderActions onHelp={help.open} />
        </Group>
      </AppShell.Header>
      <AppShell.Navbar>
        <AppShell.Section grow component={ScrollArea} p="xs">
          <nav aria-label="Pages">
            {groups().map(([group, pages]) => (
              <div key={group} role="group" aria-label={group}>
                <Text size="xs" c="dimmed" fw={600} px="sm" pt="sm" pb={4}>
                  {group}
                </Text>
                {pages.map((page) => (
                  <NavLink
                    key={page.path}
                    renderRoot={(props) => (
                      <Link
                        {...props}
                        to={page.path}
                        onClick={menu.close}
                        aria-current={page === current ? 'page' : undefined}
                      />
                    )}
                    label={page.name}
                    leftSection={<page.icon size={18} stroke={1.6} />}
                    active={page === current}
                  />
                ))}
              </div>
            ))}
          </nav>
        </AppShell.Section>
      </AppShell.Navbar>
      <AppShell.Main id="content" tabIndex={-1}>
        {session.superseded && <SupersededBanner {...session.superseded} />}
        <Outlet />
      </AppShell.Main>
      <KeyboardHelp opened={isHelpOpen} onClose={help.close} />
    </AppShell>
  );
}

/** Warns on every page that this instance serves a file that is older than the database. */
function SupersededBanner({ message, hint, differs }: NonNullable<Session['superseded']>) {
  return (
    <Alert color="red" title="This instance does not serve the newest svc.yaml" mb="md">
      <Text size="sm">
        {message}. {hint}
      </Text>
      {differs.length > 0 && (
        <List size="sm" mt="xs">
          {differs.map((line) => (
            <List.Item key={line}>{line}</List.Item>
          ))}
        </List>
      )}
    </Alert>
  );
}

function HeaderActions({ onHelp }: { onHelp: () => void }) {
  const { setColorScheme } = useMantineColorScheme();
  const scheme = useComputedColorScheme('light');
  const signOut = useSignOut();
  return (
    <Group gap={4} wrap="nowrap">
      <Tooltip label="Keyboard shortcuts (?)">
        <ActionIcon
          variant="subtle"
          color="gray"
          size="lg"
          aria-label="Keyboard shortcuts"
          onClick={onHelp}
          visibleFrom="sm"
        >
          <IconKeyboard size={18} />
        </ActionIcon>
      </Tooltip>
      <Tooltip label={scheme === 'dark' ? 'Light' : 'Dark'}>
        <ActionIcon
          variant="subtle"
          color="gray"
          size="lg"
          aria-label={scheme === 'dark' ? 'Use light colours' : 'Use dark colours'}
          onClick={() => setColorScheme(scheme === 'dark' ? 'light' : 'dark')}
        >
          {scheme === 'dark' ? <IconSun size={18} /> : <IconMoon size={18} />}
        </ActionIcon>
      </Tooltip>
      <Tooltip label="Sign out">
        <ActionIcon
          variant="subtle"
          color="gray"
          size="lg"
          aria-label="Sign out"
          loading={signOut.isPending}
          onClick={() => signOut.mutate()}
        >
          <IconLogout size={18} />
        </ActionIcon>
      </Tooltip>
    </Group>
  );
}

function groups(): Array<[string, PageEntry[]]> {
  return Object.entries(Object.groupBy(PAGES, ({ group }) => group));
}

/** Returns the page whose path is the longest prefix of the address: `/tables/…` belongs to Tables. */
function currentPage(pathname: string): PageEntry | undefined {
  const below = pathname.replace(/^\/dashboard/, '') || '/';
  return PAGES.find((page) =>
    page.path === '/' ? below === '/' : below === page.path || below.startsWith(`${page.path}/`),
  );
}
