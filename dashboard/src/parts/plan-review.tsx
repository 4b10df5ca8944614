// Reviews a change of svc.yaml: shows the changed lines and the migration steps, then offers to write the file.
import { Alert, Badge, Box, Button, Code, Group, Modal, Stack, Text } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import type {
  ConfigApplied,
  ConfigChange,
  ConfigEditRequest,
  ConfigFile,
  ConfigPlan,
  PlanProblem,
} from '../../../src/dashboard-api/contract.ts';
import { get, send } from '../api.ts';
import { notifyDone } from './notify.ts';
import { Failure, Loaded } from './states.tsx';
import classes from './plan-review.module.css';

/** Change requested by a form: edits of keys, or the whole text. */
export type ProposedChange = { edits: ConfigEditRequest[] } | { text: string };

type PlanReviewProps = {
  /** Undefined closes the dialog. */
  change: ProposedChange | undefined;
  /** Version that the change was made against. Defaults to the current one. */
  version?: string;
  title: string;
  onClose: () => void;
  onApplied?: (applied: ConfigApplied) => void;
};

const REFRESH_DELAYS_MS = [500, 1_500, 4_000, 10_000];

export function PlanReview({ change, version, title, onClose, onApplied }: PlanReviewProps) {
  const queries = useQueryClient();
  const file = useQuery({
    queryKey: ['config'],
    queryFn: ({ signal }) => get<ConfigFile>('/config', signal),
    enabled: change !== undefined,
  });
  const base = version ?? file.data?.version;
  const body: ConfigChange | undefined =
    change && base !== undefined ? { version: base, ...change } : undefined;
  const plan = useQuery({
    queryKey: ['config', 'plan', body],
    queryFn: () => send<ConfigPlan>('POST', '/config/plan', body),
    enabled: body !== undefined,
    staleTime: 0,
    gcTime: 0,
  });
  const apply = useMutation({
    mutationFn: async () => {
      const applied = await send<ConfigApplied>('POST', '/config/apply', body);
      // `svc dev` reloads the file when its watcher sees the change. Refresh again a little later.
      if (applied.pending === null) {
        const refresh = (): void =>
          void queries.invalidateQueries({ predicate: ({ queryKey }) => queryKey[1] !== 'plan' });
        for (const milliseconds of REFRESH_DELAYS_MS) setTimeout(refresh, milliseconds);
      }
      return applied;
    },
    onSuccess: async (applied) => {
      notifyDone('svc.yaml was changed');
      onApplied?.(applied);
      onClose();
      // Do not refetch the plan that was just applied: its base version is gone.
      await queries.invalidateQueries({ predicate: ({ queryKey }) => queryKey[1] !== 'plan' });
    },
  });
  return (
    <Modal opened={change !== undefined} onClose={onClose} title={title} size="xl">
      <Stack>
        <Loaded query={plan}>
          {(planned) => (
            <>
              <PlanDetails plan={planned} />
              {apply.isError && <Failure error={apply.error} />}
              <Group justify="flex-end">
                <Button variant="default" onClick={onClose}>
                  Cancel
                </Button>
                <Button
                  loading={apply.isPending}
                  disabled={planned.problems.length > 0}
                  onClick={() => apply.mutate()}
                >
                  Write svc.yaml
                </Button>
              </Group>
            </>
          )}
        </Loaded>
      </Stack>
    </Modal>
  );
}

function PlanDetails({ plan }: { plan: ConfigPlan }) {
  return (
    <Stack>
      <DiffView diff={plan.diff} />
      {plan.steps.length === 0 && plan.problems.length === 0 && (
        <Text size="sm">The database does not change.</Text>
      )}
      {plan.steps.length > 0 && (
        <Stack gap={4}>
          <Text size="sm" fw={600}>
            Migration steps
          </Text>
          {plan.steps.map((step) => (
            <details key={`${step.at} ${step.sql}`}>
              <summary>
                <Text span size="sm">
                  <Code>{step.sign}</Code> {step.at}: {step.summary}{' '}
                  {step.hazards.map((hazard) => (
                    <Badge key={hazard} size="xs" color="orange" variant="light" ml={4}>
                      {hazard}
                    </Badge>
                  ))}
                </Text>
              </summary>
              <Code block mt={4}>
                {step.sql}
              </Code>
            </details>
          ))}
        </Stack>
      )}
      <Problems color="red" title="This change would be rejected" problems={plan.problems} />
      <Problems color="yellow" title="Hints" problems={plan.hints} />
    </Stack>
  );
}

function Problems({
  color,
  title,
  problems,
}: {
  color: string;
  title: string;
  problems: readonly PlanProblem[];
}) {
  if (problems.length === 0) return null;
  return (
    <Alert color={color} title={title}>
      {problems.map((problem) => (
        <Text key={`${problem.code} ${problem.at}`} size="sm">
          <Code>{problem.code}</Code> {problem.at}: {problem.message} {problem.hint}
        </Text>
      ))}
    </Alert>
  );
}

/** Shows changed lines with three lines of context. */
export function DiffView({ diff }: { diff: ConfigPlan['diff'] }) {
  const near = diff.map((_, index) =>
    diff.slice(Math.max(0, index - 3), index + 4).some(({ sign }) => sign !== ' '),
  );
  if (!near.includes(true)) return <Text size="sm">svc.yaml does not change.</Text>;
  return (
    <Box className={classes['diff']} tabIndex={0} role="region" aria-label="Changes of svc.yaml">
      {diff.map((line, index) =>
        near[index] === true ? (
          <div key={`${index}`} data-sign={line.sign} className={classes['line']}>
            <span className={classes['number']}>{line.line}</span>
            <span aria-label={line.sign === '+' ? 'added' : line.sign === '-' ? 'removed' : undefined}>
              {line.sign}{' '}
            </span>
            {line.text}
          </div>
        ) : near[index - 1] === true ? (
          <div key={`${index}`} className={classes['gap']}>
            ⋯
          </div>
        ) : null,
      )}
    </Box>
  );
}
