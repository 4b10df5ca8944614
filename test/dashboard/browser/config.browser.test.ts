import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { dashboardWorld, expectAccessible } from '../../support/browser/browser.ts';

const world = dashboardWorld();

function file(): string {
  return readFileSync(world.project.config, 'utf8');
}

/** Types on the empty line at the end of the file. */
async function type(page: Page, text: string): Promise<void> {
  await page.getByLabel('svc.yaml').click();
  await page.keyboard.press('Control+End');
  await page.keyboard.insertText(text);
  await page.keyboard.press('Enter');
}

async function shown(page: Page): Promise<string> {
  return (await page.locator('.cm-line').allTextContents()).join('\n');
}

/** Returns whether the element is visible, both in the window and in its scroll containers. */
async function isVisible(page: Page, selector: string): Promise<boolean> {
  return page.evaluate(async (target) => {
    const element = document.querySelector(target);
    if (!element) return false;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const observer = new IntersectionObserver(([entry]) => resolve(entry?.isIntersecting ?? false));
    observer.observe(element);
    return promise.finally(() => observer.disconnect());
  }, selector);
}

describe.skipIf(world.skipped)('configuration', () => {
  test('the overlay of the file is named', async () => {
    const overlay = join(dirname(world.project.config), 'svc.development.yaml');
    writeFileSync(overlay, 'auth: { jwt_expiry: 5m }\n');
    try {
      const page = await world.open('/config');
      const notice = page.getByText('svc.development.yaml overrides values of this file');
      await expect
        .poll(async () => {
          await page.reload();
          await page.getByLabel('svc.yaml').waitFor();
          return notice.count();
        })
        .toBe(1);
      await expectAccessible(page);
    } finally {
      rmSync(overlay);
    }
  });

  test('a change is shown as a diff and steps, then written with its comments', async () => {
    const before = file();
    const page = await world.open('/config');
    await type(page, '# Written in a browser');
    await page.getByRole('button', { name: 'Review' }).click();
    const review = page.getByRole('dialog', { name: 'Change svc.yaml' });
    await review.getByText('# Written in a browser').waitFor();
    await expectAccessible(page);
    expect(file()).toBe(before);
    await review.getByRole('button', { name: 'Write svc.yaml' }).click();
    await review.waitFor({ state: 'hidden' });
    expect(file()).toBe(`${before}# Written in a browser\n`);
    expect(await page.getByRole('button', { name: 'Review' }).isDisabled()).toBe(true);
  });

  test('a mistake is shown at its line, and nothing is written', async () => {
    const before = file();
    const page = await world.open('/config', { expected: [/status of 422/] });
    await type(page, 'funktions: {}');
    await page.keyboard.press('Control+Home');
    await page.getByRole('button', { name: 'Review' }).click();
    await page.getByRole('alert').getByText('funktions').waitFor();
    // The editor renders only lines near the viewport, so poll until the marked line is visible.
    await expect.poll(() => isVisible(page, '.cm-marked')).toBe(true);
    expect(await page.locator('.cm-marked').textContent()).toContain('funktions');
    await expectAccessible(page);
    expect(file()).toBe(before);
    await page.getByRole('button', { name: 'Discard' }).click();
    expect(await page.locator('.cm-marked').count()).toBe(0);
  });

  test('if the file changes during an edit, the new text is offered and the edited text is kept', async () => {
    const page = await world.open('/config', { expected: [/status of 409/] });
    await type(page, '# Mine');
    const theirs = file().replace('name: Todo', 'name: Theirs');
    writeFileSync(world.project.config, theirs);
    await page.getByRole('button', { name: 'Review' }).click();
    await page.getByRole('alert').getByText('has changed').waitFor();
    await expectAccessible(page);
    expect(file()).toBe(theirs);

    await page.getByRole('button', { name: 'Load the new text' }).click();
    await expect.poll(() => shown(page)).toContain('name: Theirs');
    expect(await shown(page)).not.toContain('# Mine');
    expect(await page.getByRole('region', { name: 'your discarded text' }).textContent()).toContain('# Mine');

    await type(page, '# Mine');
    await page.getByRole('button', { name: 'Review' }).click();
    await page.getByRole('button', { name: 'Write svc.yaml' }).click();
    await expect.poll(file).toBe(`${theirs}# Mine\n`);
  });
});
