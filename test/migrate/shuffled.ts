/** Returns the items in a random order that depends only on the seed. */
export function shuffled<T>(items: readonly T[], seed: number): T[] {
  let state = seed;
  const random = (): number => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
  return items
    .map((item) => ({ item, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item);
}
