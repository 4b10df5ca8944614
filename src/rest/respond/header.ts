// What may be sent as a header: names and values that SQL made must not end the header or begin another.

export function isHeader(name: string, value: unknown): value is string {
  return /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/.test(name) && typeof value === 'string' && !/[\r\n\0]/.test(value);
}
