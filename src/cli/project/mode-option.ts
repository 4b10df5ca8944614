// The option `--mode`, for commands that read svc.yaml in one of its modes.
import { Option } from 'commander';
import { MODES, type Mode } from '../../config/mode.ts';

export type ModeOption = { mode?: Mode };

export function modeOption(otherwise: string): Option {
  return new Option(
    '--mode <mode>',
    `overlay (svc.<mode>.yaml) and environment files to use (default: ${otherwise})`,
  ).choices(MODES);
}
