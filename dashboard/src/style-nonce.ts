/** Returns the nonce that allows style elements. The server creates a new one for each page load. */
export function styleNonce(): string {
  const meta = document.querySelector('meta[name="style-nonce"]');
  return meta?.getAttribute('content') ?? '';
}
