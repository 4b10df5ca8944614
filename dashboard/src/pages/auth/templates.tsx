// Edits the mail templates, with a preview.
import {
  Badge,
  Button,
  Code,
  Group,
  Input,
  NativeSelect,
  SimpleGrid,
  Stack,
  Text,
  TextInput,
} from '@mantine/core';
import { useState } from 'react';
import type { MailTemplateInfo } from '../../../../src/dashboard-api/contract.ts';
import { CodeEditor } from '../../parts/code-editor.tsx';
import type { ProposedChange } from '../../parts/plan-review.tsx';
import { usePageSearch } from '../../parts/search-params.ts';
import { Empty } from '../../parts/states.tsx';
import { useCanWrite } from '../../session.ts';
import { TemplatePreview } from './template-preview.tsx';
import classes from './template-preview.module.css';

type TemplatesProps = {
  templates: readonly MailTemplateInfo[];
  onReview: (change: ProposedChange) => void;
};

export function Templates({ templates, onReview }: TemplatesProps) {
  const [search, change] = usePageSearch();
  const chosen = templates.find(({ kind }) => kind === search['mail']) ?? templates[0];
  if (!chosen) return <Empty title="No mail templates" />;
  return (
    <Stack>
      <Group>
        <NativeSelect
          aria-label="Mail"
          size="xs"
          value={chosen.kind}
          onChange={(event) => change({ mail: event.currentTarget.value })}
          data={templates.map(({ kind, custom }) => ({
            value: kind,
            label: `${mailTitle(kind)}${custom ? ' (changed)' : ''}`,
          }))}
        />
        <Badge variant="light" color={chosen.custom ? 'teal' : 'gray'}>
          {chosen.custom ? 'from svc.yaml' : 'built in'}
        </Badge>
      </Group>
      <Template key={JSON.stringify(chosen)} template={chosen} onReview={onReview} />
    </Stack>
  );
}

function mailTitle(kind: string): string {
  const words = kind.replaceAll('_', ' ');
  return words.slice(0, 1).toUpperCase() + words.slice(1);
}

function Template({
  template,
  onReview,
}: {
  template: MailTemplateInfo;
  onReview: (change: ProposedChange) => void;
}) {
  const canWrite = useCanWrite();
  const [subject, setSubject] = useState(template.subject);
  const [body, setBody] = useState(template.body);
  const path = ['auth', 'email', 'templates', template.name];
  const isDirty = subject !== template.subject || body !== template.body;
  const review = (): void => {
    if (isDirty) onReview({ edits: [{ kind: 'set', path, value: { subject, body } }] });
  };
  return (
    <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="lg">
      <Stack gap="sm" miw={0}>
        <TextInput
          label="Subject"
          readOnly={!canWrite}
          value={subject}
          onChange={(event) => setSubject(event.currentTarget.value)}
        />
        <Stack gap={4}>
          <Input.Label labelElement="div">Body</Input.Label>
          <CodeEditor
            language="html"
            label="Body of the mail"
            minHeight={320}
            maxHeight={480}
            readOnly={!canWrite}
            value={body}
            onChange={setBody}
            onSave={review}
          />
        </Stack>
        <Text size="sm" c="dimmed" component="div">
          Available variables:{' '}
          {template.variables.map((variable) => (
            <Code key={variable} mr={4} className={classes['variable']}>{`{{ ${variable} }}`}</Code>
          ))}
        </Text>
        {canWrite && (
          <Group>
            <Button size="xs" disabled={!isDirty} onClick={review}>
              Review change
            </Button>
            {isDirty && (
              <Button
                size="xs"
                variant="default"
                onClick={() => {
                  setSubject(template.subject);
                  setBody(template.body);
                }}
              >
                Undo
              </Button>
            )}
            {template.custom && (
              <Button
                size="xs"
                variant="light"
                color="red"
                onClick={() => onReview({ edits: [{ kind: 'delete', path }] })}
              >
                Restore the built-in text
              </Button>
            )}
          </Group>
        )}
      </Stack>
      <TemplatePreview kind={template.kind} subject={subject} body={body} />
    </SimpleGrid>
  );
}
