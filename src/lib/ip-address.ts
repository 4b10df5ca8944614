// IP addresses in canonical form, and lists of them. Two forms of one address must not count as two clients.
import { BlockList, isIP, isIPv4, SocketAddress } from 'node:net';

/** Words that a list may contain instead of ranges. */
const WORDS: Readonly<Record<string, readonly string[]>> = {
  loopback: ['127.0.0.0/8', '::1/128'],
  private: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '169.254.0.0/16', 'fc00::/7', 'fe80::/10'],
};

const MAPPED = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/;

/** Returns the address without zone, and IPv4 in IPv6 as IPv4. Returns undefined if the text is not an address. */
export function readAddress(text: string): string | undefined {
  const family = isIP(text);
  if (family === 4) return text;
  if (family === 0) return undefined;
  const zone = text.indexOf('%');
  const address = zone < 0 ? text : text.slice(0, zone);
  const spelled = new SocketAddress({ address, family: 'ipv6' }).address;
  return MAPPED.exec(spelled)?.[1] ?? spelled;
}

export function isLoopback(address: string): boolean {
  return address === '::1' || address.startsWith('127.') || address.startsWith('::ffff:127.');
}

/** Returns the network of one subscriber: the IPv4 address itself, or the /64 network of an IPv6 address. */
export function clientNetwork(address: string): string {
  if (!address.includes(':')) return address;
  const [head = '', tail] = address.split('::');
  const before = head === '' ? [] : head.split(':');
  const after = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = tail === undefined ? 0 : 8 - before.length - after.length;
  const groups = [...before, ...Array<string>(Math.max(0, zeros)).fill('0'), ...after];
  return `${groups.slice(0, 4).join(':')}::/64`;
}

type Range = { readonly network: string; readonly bits: number };

/** Returns undefined if the entry is not an address, a range or a word. */
function readRanges(entry: string): readonly Range[] | undefined {
  const words = WORDS[entry];
  if (words) return words.flatMap((range) => readRanges(range) ?? []);
  const [text = '', bitsText, ...rest] = entry.split('/');
  const network = text.includes('%') ? undefined : readAddress(text);
  if (network === undefined || rest.length > 0) return undefined;
  const most = isIPv4(network) ? 32 : 128;
  if (bitsText === undefined) return [{ network, bits: most }];
  // The bits of a mapped network would count the prefix of the mapping.
  if (!/^\d{1,3}$/.test(bitsText) || Number(bitsText) > most || text.includes(':') !== network.includes(':'))
    return undefined;
  return [{ network, bits: Number(bitsText) }];
}

export function isAddressEntry(entry: string): boolean {
  return readRanges(entry) !== undefined;
}

/** Whether the entry contains every address. */
export function isEverything(entry: string): boolean {
  return readRanges(entry)?.some(({ bits }) => bits === 0) ?? false;
}

/** A list of addresses, ranges such as `10.0.0.0/8`, and the words `loopback` and `private`. */
export class AddressList {
  readonly #ranges = new BlockList();
  readonly size: number;

  /** Ignores invalid entries; callers validate user input first. */
  constructor(entries: readonly string[]) {
    this.size = entries.length;
    for (const { network, bits } of entries.flatMap((entry) => readRanges(entry) ?? [])) {
      this.#ranges.addSubnet(network, bits, isIPv4(network) ? 'ipv4' : 'ipv6');
    }
  }

  /** `address`: as returned by `readAddress`. */
  has(address: string): boolean {
    return this.size > 0 && this.#ranges.check(address, isIPv4(address) ? 'ipv4' : 'ipv6');
  }
}
