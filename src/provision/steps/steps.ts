// All steps, in the order in which they are applied to an empty database.
import { authOwnership, authSchema, codesByNetwork, importedKeyRoles, restrictedSessions } from './auth.ts';
import { backupLedger } from './backup.ts';
import { sharedConfig } from './config.ts';
import { dashboardSessions } from './dashboard.ts';
import { imports, keyAliases } from './import.ts';
import {
  dataStepLedger,
  dataStepProgress,
  formerNames,
  migrationState,
  openObjectKinds,
  packedRunModel,
  timedPartitions,
} from './migrate.ts';
import type { ProvisionStep } from './step.ts';
import { realtimeSchema } from './realtime.ts';
import { realtimeTriggers } from './realtime-triggers.ts';
import { seeds } from './seed.ts';
import { deletionHolds, referencedObjects, storageSchema } from './storage.ts';

export const PROVISION_STEPS: readonly ProvisionStep[] = [
  authSchema,
  storageSchema,
  migrationState,
  dashboardSessions,
  packedRunModel,
  authOwnership,
  importedKeyRoles,
  referencedObjects,
  seeds,
  sharedConfig,
  openObjectKinds,
  imports,
  dataStepLedger,
  keyAliases,
  realtimeSchema,
  deletionHolds,
  realtimeTriggers,
  dataStepProgress,
  formerNames,
  backupLedger,
  timedPartitions,
  restrictedSessions,
  codesByNetwork,
];
