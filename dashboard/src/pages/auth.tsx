// Settings of sign-in in svc.yaml. Every change edits the file, after a review.
import { Tabs } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { AuthSettings } from '../../../src/dashboard-api/contract.ts';
import { get } from '../api.ts';
import { Page as Frame } from '../parts/page.tsx';
import { PlanReview, type ProposedChange } from '../parts/plan-review.tsx';
import { usePageSearch } from '../parts/search-params.ts';
import { Loaded } from '../parts/states.tsx';
import { Providers } from './auth/providers.tsx';
import { Settings } from './auth/settings.tsx';
import { SigningKeys } from './auth/signing-keys.tsx';
import { Templates } from './auth/templates.tsx';

export function Page() {
  const [search, change] = usePageSearch();
  const [wanted, setWanted] = useState<ProposedChange>();
  const settings = useQuery({
    queryKey: ['auth'],
    queryFn: ({ signal }) => get<AuthSettings>('/auth', signal),
  });
  return (
    <Frame title="Auth" description="How users sign in. Changes here edit svc.yaml.">
      <Loaded query={settings}>
        {(found) => (
          <Tabs
            value={search['tab'] ?? 'settings'}
            onChange={(tab) => change({ tab: tab ?? undefined })}
            keepMounted={false}
          >
            <Tabs.List mb="md">
              <Tabs.Tab value="settings">Settings</Tabs.Tab>
              <Tabs.Tab value="providers">Providers</Tabs.Tab>
              <Tabs.Tab value="templates">Mail templates</Tabs.Tab>
              <Tabs.Tab value="keys">Signing keys</Tabs.Tab>
            </Tabs.List>
            <Tabs.Panel value="settings">
              <Settings key={JSON.stringify(found)} settings={found} onReview={setWanted} />
            </Tabs.Panel>
            <Tabs.Panel value="providers">
              <Providers providers={found.oauth} onReview={setWanted} />
            </Tabs.Panel>
            <Tabs.Panel value="templates">
              <Templates templates={found.templates} onReview={setWanted} />
            </Tabs.Panel>
            <Tabs.Panel value="keys">
              <SigningKeys keys={found.signingKeys} />
            </Tabs.Panel>
          </Tabs>
        )}
      </Loaded>
      <PlanReview change={wanted} title="Change of svc.yaml" onClose={() => setWanted(undefined)} />
    </Frame>
  );
}
