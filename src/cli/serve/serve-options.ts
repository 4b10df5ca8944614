// What `svc serve` was started with.
import type { DashboardMode } from '../../dashboard-api/contract.ts';

export type ServeOptions = {
  config?: string;
  initialConfig?: string;
  port?: number;
  host: string;
  admin?: string;
  migrate?: boolean;
  importPreview?: boolean;
  strict?: boolean;
  dashboard: DashboardMode | 'off';
  deploySeq?: number;
  allowRollback?: boolean;
  superseded: 'serve' | 'refuse';
  untilStdinEnds?: boolean;
  dataDirectory?: string;
  processes?: number | 'auto';
};
