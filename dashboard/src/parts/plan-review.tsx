// A change of svc.yaml, from its preview to its being taken: the lines that change, what the migration will do,
// and only then the button.
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

/** What a form wants changed: edits of keys, or the whole text. */
export type WantedChange = { edits: ConfigEditRequest[] } | { text: string };

type PlanReviewProps = {
  /** Undefined while there is nothing to review: the dialog is closed then. */
  change: WantedChange | undefined;
  /** The file the change was made from; without it, the file as it is now. */
  version?: string;
  title: string;
  onClose: () => void;
  onApplied?: (applied: ConfigApplied) => void;
};

const LOOK_AGAIN_AFTER_MS = [500, 1_500, 4_000, 10_000];

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
      // `svc dev` takes the file when it sees it change: what it makes of it is looked at again a little later.
      if (applied.pending === null) {
        const lookAgain = (): void =>
          void queries.invalidateQueries({ predicate: ({ queryKey }) => queryKey[1] !== 'plan' });
        for (const milliseconds of LOOK_AGAIN_AFTER_MS) setTimeout(lookAgain, milliseconds);
      }
      return applied;
    },
    onSuccess: async (applied) => {
      notifyDone('svc.yaml was changed');
      onApplied?.(applied);
      onClose();
      // Not the plan that was just carried out: the file it was made from is gone.
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
        <Text size="sm">The database stays as it is.</Text>
      )}
      {plan.steps.length > 0 && (
        <Stack gap={4}>
          <Text size="sm" fw={600}>
            What happens in the database
          </Text>
          {plan.steps.map((step) => (
            <details key={`${step.at} ${step.sql}`}>
              <summary>
                <Text span size="sm">
                  <Code>{step.sign}</Code> {step.at}: {step.summary}{' '}
                  {step.hazards.map((hazard) => (
                    <Badge key={hazard} size="xs" color="orange" variant="light" ml={4}>
                      {hazard.replaceAll('_', ' ').toLowerCase()}
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
      <Problems color="red" title="This would be refused" problems={plan.problems} />
      <Problems color="yellow" title="Worth a look" problems={plan.hints} />
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

/** Changed lines with three lines around them. */
export function DiffView({ diff }: { diff: ConfigPlan['diff'] }) {
  const near = diff.map((_, index) =>
    diff.slice(Math.max(0, index - 3), index + 4).some(({ sign }) => sign !== ' '),
  );
  if (!near.includes(true)) return <Text size="sm">svc.yaml stays as it is.</Text>;
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
