// Form field for a value of a database type. The value is text: see values.ts.
import { JsonInput, NativeSelect, Textarea, TextInput } from '@mantine/core';
import type { ReactNode } from 'react';
import { valueKind, type ValueType } from './values.ts';

type ValueFieldProps = {
  type: ValueType;
  label: string;
  /** Keeps the label for screen readers only. */
  hideLabel?: boolean;
  description?: ReactNode;
  required?: boolean;
  placeholder?: string;
  value: string;
  onChange: (text: string) => void;
  error?: string | undefined;
  autoFocus?: boolean;
};

export function ValueField({ type, label, hideLabel = false, value, onChange, ...rest }: ValueFieldProps) {
  const { autoFocus, required, placeholder, description, error } = rest;
  const shared = {
    ...(hideLabel ? { 'aria-label': label } : { label }),
    ...(description === undefined ? {} : { description }),
    ...(error === undefined ? {} : { error }),
    ...(autoFocus === true ? { 'data-autofocus': true } : {}),
    withAsterisk: required === true,
    'aria-required': required === true,
  };
  const kind = valueKind(type);
  const onText = (event: { currentTarget: { value: string } }): void => onChange(event.currentTarget.value);
  const hint = placeholder === undefined ? {} : { placeholder };
  switch (kind) {
    case 'boolean':
    case 'choice':
      return (
        <NativeSelect
          {...shared}
          value={value}
          onChange={onText}
          data={[
            { value: '', label: placeholder ?? '' },
            ...(kind === 'boolean' ? ['true', 'false'] : (type.enumLabels ?? [])),
          ]}
        />
      );
    case 'json':
      return (
        <JsonInput
          {...shared}
          {...hint}
          value={value}
          onChange={onChange}
          autosize
          minRows={2}
          maxRows={12}
          validationError={undefined}
          styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
        />
      );
    case 'text':
      return (
        <Textarea {...shared} {...hint} value={value} onChange={onText} autosize minRows={1} maxRows={12} />
      );
    case 'number':
    case 'array':
    case 'time':
    case 'uuid':
      return (
        <TextInput
          {...shared}
          {...hint}
          value={value}
          onChange={onText}
          inputMode={kind === 'number' ? 'decimal' : 'text'}
          spellCheck={false}
        />
      );
  }
}
