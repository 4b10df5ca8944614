// Lists the pages of the dashboard with their path, name and file.
import {
  IconApi,
  IconBroadcast,
  IconChartBar,
  IconDatabase,
  IconFileCode,
  IconFunction,
  IconGauge,
  IconKey,
  IconListDetails,
  IconMail,
  IconPhoto,
  IconSettings,
  IconShieldLock,
  IconUsers,
} from '@tabler/icons-react';
import type { ComponentType } from 'react';

type PageModule = { readonly Page: ComponentType };

export type PageEntry = {
  readonly path: string;
  readonly name: string;
  readonly group: 'Project' | 'Database' | 'APIs' | 'Operations';
  readonly icon: ComponentType<{ size?: number | string; stroke?: number | string }>;
  /** Key to press after `g`. */
  readonly key: string;
  readonly load: () => Promise<PageModule>;
};

export const PAGES: readonly PageEntry[] = [
  {
    path: '/',
    name: 'Overview',
    group: 'Project',
    icon: IconGauge,
    key: 'o',
    load: () => import('../pages/overview.tsx'),
  },
  {
    path: '/config',
    name: 'Configuration',
    group: 'Project',
    icon: IconSettings,
    key: 'c',
    load: () => import('../pages/config.tsx'),
  },
  {
    path: '/tables',
    name: 'Tables',
    group: 'Database',
    icon: IconDatabase,
    key: 't',
    load: () => import('../pages/tables.tsx'),
  },
  {
    path: '/policies',
    name: 'Policies',
    group: 'Database',
    icon: IconShieldLock,
    key: 'p',
    load: () => import('../pages/policies.tsx'),
  },
  {
    path: '/sql-functions',
    name: 'SQL functions',
    group: 'Database',
    icon: IconFunction,
    key: 's',
    load: () => import('../pages/sql-functions.tsx'),
  },
  {
    path: '/statements',
    name: 'Statements',
    group: 'Database',
    icon: IconChartBar,
    key: 'q',
    load: () => import('../pages/statements.tsx'),
  },
  {
    path: '/functions',
    name: 'Code functions',
    group: 'APIs',
    icon: IconFileCode,
    key: 'f',
    load: () => import('../pages/functions.tsx'),
  },
  {
    path: '/auth',
    name: 'Auth',
    group: 'APIs',
    icon: IconKey,
    key: 'a',
    load: () => import('../pages/auth.tsx'),
  },
  {
    path: '/users',
    name: 'Users',
    group: 'APIs',
    icon: IconUsers,
    key: 'u',
    load: () => import('../pages/users.tsx'),
  },
  {
    path: '/storage',
    name: 'Storage',
    group: 'APIs',
    icon: IconPhoto,
    key: 'b',
    load: () => import('../pages/storage.tsx'),
  },
  {
    path: '/realtime',
    name: 'Realtime',
    group: 'APIs',
    icon: IconBroadcast,
    key: 'r',
    load: () => import('../pages/realtime.tsx'),
  },
  {
    path: '/api-docs',
    name: 'API docs',
    group: 'APIs',
    icon: IconApi,
    key: 'd',
    load: () => import('../pages/api-docs.tsx'),
  },
  {
    path: '/mail',
    name: 'Mail',
    group: 'Operations',
    icon: IconMail,
    key: 'm',
    load: () => import('../pages/mail.tsx'),
  },
  {
    path: '/logs',
    name: 'Logs',
    group: 'Operations',
    icon: IconListDetails,
    key: 'l',
    load: () => import('../pages/logs.tsx'),
  },
];
