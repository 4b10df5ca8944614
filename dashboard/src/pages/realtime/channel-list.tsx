// Lists the channels with members, of all instances that answered.
import { Anchor, Badge, Group, Paper, Stack, Text, Title, Tooltip } from '@mantine/core';
import { IconLock } from '@tabler/icons-react';
import { useState } from 'react';
import type { RealtimeChannelInfo, RealtimeLive } from '../../../../src/dashboard-api/contract.ts';
import { formatCount } from '../../parts/format.tsx';
import { SearchBox } from '../../parts/search-box.tsx';
import { usePageSearch } from '../../parts/search-params.ts';
import { Empty } from '../../parts/states.tsx';
import classes from './realtime.module.css';
import { formatRate, channelKey, type Rates } from './use-rates.ts';

const SHOWN_KEYS = 6;

export function ChannelList({ live, rates }: { live: RealtimeLive; rates: Rates }) {
  const [text, setText] = useState('');
  const [search, change] = usePageSearch();
  const wanted = text.trim().toLowerCase();
  const found = live.channels.filter(({ topic }) => topic.toLowerCase().includes(wanted));
  const chosen = channelKey({ topic: search['topic'] ?? '', private: search['private'] === 'yes' });
  return (
    <Paper withBorder component="section" aria-label="Open channels" className={classes['panel']}>
      <Group justify="space-between" px="md" py="sm" gap="xs">
        <Title order={3} size="h5">
          Open channels
        </Title>
        <SearchBox label="Search channels" value={text} onChange={setText} />
      </Group>
      {live.channels.length === 0 ? (
        <Empty title="No channel is open">
          It appears here as soon as a client subscribes, for example with{' '}
          <span className="mono">supabase.channel('room:1').subscribe()</span>.
        </Empty>
      ) : found.length === 0 ? (
        <Empty title="No matching channel" />
      ) : (
        <ul className={classes['channels']}>
          {found.map((channel) => (
            <Channel
              key={channelKey(channel)}
              channel={channel}
              rate={rates.channels.get(channelKey(channel)) ?? 0}
              isChosen={channelKey(channel) === chosen}
              onChoose={() => change({ topic: channel.topic, private: channel.private ? 'yes' : 'no' })}
            />
          ))}
        </ul>
      )}
      {live.more > 0 && (
        <Text size="xs" c="dimmed" px="md" py="xs">
          {formatCount(live.more)} more with fewer members are not listed.
        </Text>
      )}
    </Paper>
  );
}

type ChannelProps = {
  channel: RealtimeChannelInfo;
  /** Messages per second. */
  rate: number;
  isChosen: boolean;
  onChoose: () => void;
};

function Channel({ channel, rate, isChosen, onChoose }: ChannelProps) {
  const { topic, members, instances, tables, present, presentCount } = channel;
  const hidden = presentCount - Math.min(present.length, SHOWN_KEYS);
  return (
    <li className={classes['channel']} data-chosen={isChosen || undefined}>
      <Stack gap={4} miw={0} flex={1}>
        <Group gap={6} wrap="nowrap" miw={0}>
          {channel.private && (
            <Tooltip label="private: policies decide who may join">
              <IconLock size={14} role="img" aria-label="private" />
            </Tooltip>
          )}
          <Anchor
            component="button"
            type="button"
            size="sm"
            className="mono truncate"
            aria-current={isChosen ? 'true' : undefined}
            onClick={onChoose}
          >
            {topic}
          </Anchor>
        </Group>
        {(presentCount > 0 || tables.length > 0) && (
          <Group gap={4}>
            {present.slice(0, SHOWN_KEYS).map((key) => (
              <Badge key={key} size="sm" variant="light" color="teal" tt="none" className={classes['key']}>
                {key}
              </Badge>
            ))}
            {hidden > 0 && (
              <Text size="xs" c="dimmed">
                and {formatCount(hidden)} more
              </Text>
            )}
            {tables.map((table) => (
              <Badge key={table} size="sm" variant="default" tt="none" className={classes['key']}>
                {table.replace(/^public\./, '')}
              </Badge>
            ))}
          </Group>
        )}
      </Stack>
      <Stack gap={0} align="flex-end" flex="none">
        <Text size="sm">
          {formatCount(members)} {members === 1 ? 'member' : 'members'}
        </Text>
        <Text size="xs" c="dimmed">
          {rate > 0 ? formatRate(rate) : 'quiet'}
          {instances > 1 && `, ${instances} instances`}
        </Text>
      </Stack>
    </li>
  );
}
