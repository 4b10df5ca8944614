// Lists the outbox with the delivery state of each mail, and under `svc dev` shows the mail itself.
import {
  Alert,
  Anchor,
  Badge,
  Box,
  Code,
  Group,
  SegmentedControl,
  Stack,
  Table,
  Text,
  Title,
} from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { MailList, MailRow } from '../../../src/dashboard-api/contract.ts';
import { apiUrl, get } from '../api.ts';
import { Copy } from '../parts/copy.tsx';
import { Ago } from '../parts/format.tsx';
import { PageLink } from '../parts/page-link.tsx';
import { Page as Frame } from '../parts/page.tsx';
import { SearchBox } from '../parts/search-box.tsx';
import { usePageSearch } from '../parts/search-params.ts';
import { Empty, Loaded } from '../parts/states.tsx';
import { linksIn } from './mail/links.ts';
import classes from './mail/mail.module.css';

const SHOWN = 200;

export function Page() {
  const [search, change] = usePageSearch();
  const mails = useQuery({
    queryKey: ['mail'],
    queryFn: ({ signal }) => get<MailList>(`/mail?limit=${SHOWN}`, signal),
    refetchInterval: 3_000,
  });
  const to = search['to'] ?? '';
  const chosen = mails.data?.mails.find(({ id }) => id === search['mail']);
  return (
    <Frame
      title="Mail"
      description={
        mails.data?.caught === true
          ? 'No mail provider is configured: mail is stored here instead of being sent.'
          : `The last ${SHOWN} mails of the outbox. Sent mail is private to its recipient: only mail that svc dev ` +
            'caught can be read here.'
      }
      actions={
        <SearchBox
          label="Search by address"
          value={to}
          onChange={(text) => change({ to: text === '' ? undefined : text })}
        />
      }
    >
      <Loaded query={mails}>
        {(list) => {
          const shown = list.mails.filter((mail) => mail.to.toLowerCase().includes(to.trim().toLowerCase()));
          if (shown.length === 0) {
            return list.mails.length === 0 ? (
              <Empty title="No mail yet">Sign-ups, invitations and password resets send mail.</Empty>
            ) : (
              <Empty title={`No mail to ${to}`} />
            );
          }
          return (
            <div className={classes['panes']} data-open={chosen !== undefined}>
              <MailTable mails={shown} chosen={chosen?.id} to={search['to']} />
              {chosen && <MailView mail={chosen} to={search['to']} />}
            </div>
          );
        }}
      </Loaded>
    </Frame>
  );
}

function MailTable({
  mails,
  chosen,
  to,
}: {
  mails: readonly MailRow[];
  chosen: string | undefined;
  to: string | undefined;
}) {
  return (
    <div className={classes['list']}>
      <Table verticalSpacing="xs">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Mail</Table.Th>
            <Table.Th>State</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {mails.map((mail) => (
            <Table.Tr
              key={mail.id}
              className={classes['row']}
              aria-current={mail.id === chosen ? 'true' : undefined}
            >
              <Table.Td className={classes['subject']}>
                <Text size="sm" component="div" className="truncate">
                  <PageLink search={{ mail: mail.id, to }}>{mail.subject}</PageLink>
                </Text>
                <Text size="xs" c="dimmed" component="div" className="truncate">
                  {mail.to} · {mail.kind.replaceAll('_', ' ')} · <Ago time={mail.createdAt} />
                </Text>
              </Table.Td>
              <Table.Td>
                <MailState mail={mail} />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </div>
  );
}

const STATE_COLORS: Record<MailRow['state'], string> = {
  pending: 'gray',
  sending: 'blue',
  sent: 'teal',
  failed: 'red',
  uncertain: 'yellow',
  caught: 'gray',
};

function MailState({ mail }: { mail: MailRow }) {
  return (
    <Badge variant="light" color={STATE_COLORS[mail.state]}>
      {mail.state}
    </Badge>
  );
}

function MailView({ mail, to }: { mail: MailRow; to: string | undefined }) {
  const [view, setView] = useState('mail');
  const links = linksIn(mail.text ?? '');
  return (
    <Stack component="section" aria-label="Mail" gap="sm" miw={0}>
      <Box hiddenFrom="md">
        <PageLink search={{ to }}>All mail</PageLink>
      </Box>
      <div>
        <Title order={3} size="h4">
          {mail.subject}
        </Title>
        <Text size="sm" c="dimmed" style={{ overflowWrap: 'anywhere' }}>
          To {mail.to}, <Ago time={mail.createdAt} />
        </Text>
      </div>
      <Group gap="xs">
        <MailState mail={mail} />
        {mail.state !== 'caught' && (
          <Text size="sm">
            {mail.attempts === 1 ? '1 attempt' : `${mail.attempts} attempts`}
            {mail.sentAt !== null && (
              <>
                , sent <Ago time={mail.sentAt} />
              </>
            )}
          </Text>
        )}
      </Group>
      {mail.lastError !== null && (
        <Alert color={mail.state === 'failed' ? 'red' : 'yellow'} title="Error of the mail provider">
          <Code block>{mail.lastError}</Code>
        </Alert>
      )}
      {mail.state === 'uncertain' && (
        <Text size="sm">
          The connection broke after the mail was handed over. It may have arrived, so it is not sent again.
        </Text>
      )}
      {links.length > 0 && (
        <Stack gap={4}>
          <Title order={4} size="h6">
            Links
          </Title>
          {links.map((link) => (
            <Group key={link} gap={4} wrap="nowrap">
              <Anchor href={link} target="_blank" rel="noreferrer" size="sm" className="mono truncate">
                {link}
              </Anchor>
              <Copy value={link} label="link" />
            </Group>
          ))}
        </Stack>
      )}
      {mail.hasHtml && mail.text !== null && (
        <SegmentedControl
          aria-label="Show"
          size="xs"
          value={view}
          onChange={setView}
          data={[
            { value: 'mail', label: 'Mail' },
            { value: 'text', label: 'Text' },
          ]}
          style={{ alignSelf: 'flex-start' }}
        />
      )}
      {mail.hasHtml && view === 'mail' ? (
        <iframe
          key={mail.id}
          title={`Mail: ${mail.subject}`}
          src={apiUrl(`/mail/${encodeURIComponent(mail.id)}/html`)}
          // Allow no scripts, no forms and no access to this page. Links open in new tabs.
          sandbox="allow-popups allow-popups-to-escape-sandbox"
          className={classes['frame']}
        />
      ) : mail.text !== null ? (
        <Code block tabIndex={0} role="region" aria-label="Text of the mail" className={classes['text']}>
          {mail.text}
        </Code>
      ) : (
        <Text size="sm" c="dimmed">
          Only the recipient can read this mail.
        </Text>
      )}
    </Stack>
  );
}
