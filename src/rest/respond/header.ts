// Valid header names and values: those that come from SQL must not be able to start another header.

export function isHeader(name: string, value: unknown): value is string {
  return /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/.test(name) && typeof value === 'string' && !/[\r\n\0]/.test(value);
}
