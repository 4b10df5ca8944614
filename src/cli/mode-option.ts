// `--mode`, for the commands that read svc.yaml as it is in one of its modes.
import { Option } from 'commander';
import { MODES, type Mode } from '../config/mode.ts';

export type ModeOption = { mode?: Mode };

export function modeOption(otherwise: string): Option {
  return new Option(
    '--mode <mode>',
    `which overlay (svc.<mode>.yaml) and environment files count; ${otherwise} when absent`,
  ).choices(MODES);
}
