// The options of `svc serve`.
import type { Mode } from '../../config/mode.ts';
import type { DashboardMode } from '../../dashboard-api/contract.ts';
import type { ModeOption } from '../project/mode-option.ts';

export type ServeOptions = ModeOption & {
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

export function serveMode({ mode = 'production' }: ServeOptions): Mode {
  return mode;
}
