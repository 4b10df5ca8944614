/** The server's word that a style element is ours; it changes with every load of the page. */
export function styleNonce(): string {
  const meta = document.querySelector('meta[name="style-nonce"]');
  return meta?.getAttribute('content') ?? '';
}
