// The page in a real Chromium, against the program as it is built.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Browser, BrowserContext, Page, Request } from 'playwright-core';
import { chromium } from 'playwright-core';
import { root, Server, until } from './server';

const phone = { width: 390, height: 844 };
const desktop = { width: 1280, height: 800 };

let server: Server;
let browser: Browser;

before(async () => {
  server = await Server.start();
  browser = await chromium.launch({
    executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
    args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
  });
});

after(async () => {
  await browser?.close();
  await server?.end();
});

interface Visit {
  page: Page;
  context: BrowserContext;
  /** What the console said in red. */
  complaints: string[];
}

type Options = Parameters<Browser['newContext']>[0];

/** Opens the page in a context of its own, signed in as sub, or as nobody. */
async function visit(sub?: string, options: Options = {}): Promise<Visit> {
  const context = await browser.newContext({ viewport: desktop, timezoneId: 'UTC', locale: 'en-GB', ...options });
  context.setDefaultTimeout(15_000);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  page.on('pageerror', (error) => complaints.push(String(error)));
  context.on('request', (request: Request) => {
    if (new URL(request.url()).host !== new URL(server.address).host) complaints.push(`left the host: ${request.url()}`);
  });
  if (sub) {
    const token = server.token(sub);
    await context.addInitScript((value) => {
      if (!sessionStorage.getItem('visited')) sessionStorage.setItem('tallyfeed-token', value);
      sessionStorage.setItem('visited', 'yes');
    }, token);
  }
  await page.goto(`${server.address}/`);
  await page.getByRole('article').first().waitFor();
  return { page, context, complaints };
}

/** Ends a visit that must have gone without a complaint. */
async function leave({ context, complaints }: Visit) {
  await context.close();
  assert.deepEqual(complaints, []);
}

const card = (page: Page, id: string) => page.locator(`article[data-id="${id}"]`);
const like = (page: Page, id: string) => card(page, id).getByRole('button', { name: /^Like: / });
const fav = (page: Page, id: string) => card(page, id).getByRole('button', { name: /^Fav: / });
const likes = (page: Page, id: string) => card(page, id).getByRole('button', { name: /^Who likes it: / });
const pressed = (value: boolean) => (value ? 'true' : 'false');

/** Waits until the heart and the count are as they should be. */
async function shows(page: Page, id: string, on: boolean, count: number) {
  await until(`post ${id} is ${on ? '' : 'not '}liked and has ${count} likes`, async () =>
    (await like(page, id).getAttribute('aria-pressed')) === pressed(on)
    && (await likes(page, id).innerText()) === `${count} like${count === 1 ? '' : 's'}`);
}

// What is public of feed/demo.jsonl.
const demo = readFileSync(join(root, 'feed', 'demo.jsonl'), 'utf8').trim().split('\n')
  .map((line) => JSON.parse(line) as { author: string; visibility?: string })
  .filter(({ visibility }) => visibility !== 'PRIVATE');
const authors = [...new Set(demo.map(({ author }) => author))];

test('scrolls through all posts, each once', async (t) => {
  const v = await visit();
  await until('the end of the feed', async () => {
    await v.page.mouse.wheel(0, 4000);
    return v.page.getByText('That is all.').isVisible();
  }, 60_000);
  const ids = await v.page.locator('article').evaluateAll((all) => all.map((one) => one.getAttribute('data-id')));
  assert.equal(ids.length, demo.length);
  assert.equal(new Set(ids).size, demo.length);
  t.diagnostic(`${ids.length} posts, none twice`);
  await leave(v);
});

test('queries go by GET and hash, so that a cache can answer', async () => {
  const context = await browser.newContext();
  const page = await context.newPage();
  const feeds: Request[] = [];
  page.on('request', (request) => /"?operationName"?[=:]"?Feed/.test(request.url() + request.postData()) && feeds.push(request));
  for (let n = 0; n < 2; n++) {
    await page.goto(`${server.address}/`);
    await page.getByRole('article').first().waitFor();
  }
  const last = feeds.at(-1);
  assert.equal(last?.method(), 'GET');
  assert.match(last.url(), /sha256Hash/);
  assert.doesNotMatch(last.url(), /[?&]query=/);
  await context.close();
});

test('the printed address offers its token, and the address bar is rid of it', async () => {
  const v = await visit();
  await v.page.goto('about:blank');
  await v.page.goto(server.page);
  const button = v.page.getByRole('button', { name: 'Sign in as Alice' });
  await button.waitFor();
  assert.equal(v.page.url(), `${server.address}/`);
  assert.equal(await v.page.getByRole('button', { name: 'Sign out' }).count(), 0); // offered, not taken
  await button.click();
  await v.page.locator('.account').getByText('Alice').waitFor();
  await v.page.reload();
  await v.page.getByRole('button', { name: 'Sign out' }).click();
  await v.page.getByRole('button', { name: 'Sign in', exact: true }).waitFor();
  await v.page.reload();
  await v.page.getByRole('button', { name: 'Sign in', exact: true }).waitFor();
  await leave(v);
});

test('a like is there at once, and after a reload', async () => {
  const v = await visit('bea');
  const id = 'post:10200';
  let answer = () => {};
  const held = new Promise<void>((resolve) => (answer = resolve));
  await v.page.route('**/graphql', async (route) => {
    if (route.request().postDataJSON()?.operationName === 'Like') await held;
    await route.continue();
  });
  await like(v.page, id).click();
  await shows(v.page, id, true, 1); // nothing has been sent yet
  answer();
  await v.page.waitForResponse((response) => response.request().postDataJSON()?.operationName === 'Like');
  await shows(v.page, id, true, 1);
  await v.page.reload();
  await shows(v.page, id, true, 1);
  await like(v.page, id).click();
  await shows(v.page, id, false, 0);
  await v.page.unrouteAll();
  await leave(v);
});

test('quick changes of mind end as the last one', async () => {
  const v = await visit('ben');
  const id = 'post:10199';
  for (let n = 0; n < 5; n++) await like(v.page, id).click();
  await shows(v.page, id, true, 1);
  const { post } = await settled<{ post: { viewerHasLiked: boolean; likeCount: number } }>('ben', id);
  assert.deepEqual(post, { viewerHasLiked: true, likeCount: 1 });
  await leave(v);

  async function settled<Data>(sub: string, of: string): Promise<Data> {
    let data: Data | undefined;
    await until('the server has it all', async () => {
      data = await server.ask<Data>(server.token(sub), 'query($id:ID!){post(id:$id){viewerHasLiked likeCount}}', { id: of });
      return (data as { post: { viewerHasLiked: boolean } }).post.viewerHasLiked;
    });
    return data as Data;
  }
});

test('another browser sees the count move', async () => {
  const one = await visit('cem');
  const other = await visit();
  const id = 'post:10198';
  await shows(other.page, id, false, 0);
  await like(one.page, id).click();
  await shows(other.page, id, false, 1);
  await like(one.page, id).click();
  await shows(other.page, id, false, 0);
  await leave(one);
  await leave(other);
});

test('a fav is in My favs at once', async () => {
  const v = await visit('dee');
  const id = 'post:10197';
  await v.page.getByRole('link', { name: 'My favs' }).click();
  await v.page.getByText('You have no favs yet.').waitFor();
  await v.page.getByRole('link', { name: 'Feed' }).click();
  await fav(v.page, id).click();
  await v.page.getByRole('link', { name: 'My favs' }).click();
  await v.page.getByRole('heading', { name: 'My favs' }).waitFor();
  await card(v.page, id).waitFor();
  assert.equal(await v.page.locator('article').count(), 1);
  await v.page.getByRole('link', { name: 'My likes' }).click();
  await v.page.getByText('You like nothing yet.').waitFor();
  await leave(v);
});

test('who likes it, in pages', async () => {
  const id = 'post:10196';
  for (const author of authors) await server.like(author, id);
  const v = await visit();
  const dialog = v.page.getByRole('dialog', { name: 'Who likes it' });
  await until('the list has caught up with the count', async () => {
    const query = 'query($id:ID!){post(id:$id){likers(first:100){edges{cursor}}}}';
    const { post } = await server.ask<{ post: { likers: { edges: unknown[] } } }>(server.token('alice'), query, { id });
    return post.likers.edges.length === authors.length;
  });
  await likes(v.page, id).click();
  await dialog.getByRole('listitem').first().waitFor();
  await dialog.getByRole('listitem').last().scrollIntoViewIfNeeded(); // the next page comes by itself
  await until('all are listed', async () => (await dialog.getByRole('listitem').count()) === authors.length);
  const names = await dialog.getByRole('listitem').locator('span').allInnerTexts();
  assert.equal(new Set(names).size, authors.length);
  await v.page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  assert.equal(await likes(v.page, id).evaluate((button) => button === document.activeElement), true);
  await leave(v);
});

test('without a token a like explains how to sign in', async () => {
  const v = await visit();
  await like(v.page, 'post:10195').click();
  const dialog = v.page.getByRole('dialog', { name: 'Sign in' });
  await dialog.getByText('Sign in to like a post.').waitFor();
  await dialog.getByLabel('Token').fill('nonsense');
  await dialog.getByRole('button', { name: 'Sign in' }).click();
  await dialog.getByText('This is not a token').waitFor();
  await dialog.getByLabel('Token').fill(server.token('eve'));
  await dialog.getByRole('button', { name: 'Sign in' }).click();
  await v.page.locator('.account').getByText('Eve').waitFor();
  await dialog.waitFor({ state: 'detached' });
  await leave(v);
});

test('a token that is not good any more ends the session, and says so', async () => {
  const v = await visit('fay');
  await v.page.evaluate(() => sessionStorage.setItem('tallyfeed-token', 'a.b.c'));
  await v.page.reload();
  await v.page.getByRole('dialog', { name: 'Sign in' }).getByText('Your token is not good any more.').waitFor();
  await v.page.getByRole('article').first().waitFor({ state: 'attached' }); // the feed is there for everybody
  assert.equal(await v.page.evaluate(() => sessionStorage.getItem('tallyfeed-token')), null);
  assert.equal(v.complaints.filter((text) => !text.includes('401')).length, 0, v.complaints.join('\n'));
  await v.context.close();
});

test('flags that are not known leave the posts, and hearts that say why', async () => {
  const v = await visit('gus');
  let away = true;
  await v.page.route('**/graphql*', async (route) => {
    const response = await route.fetch();
    const text = await response.text();
    if (!away) return route.fulfill({ response, body: text });
    const body = JSON.parse(text.replace(/"(viewerHas\w+|likeCount|favCount|countsAsOf)":("[^"]*"|\w+)/g, '"$1":null')) as Record<string, unknown>;
    const errors = [{ message: 'counts are not available now', path: ['feed'], extensions: { code: 'UNAVAILABLE' } }];
    return route.fulfill({ response, json: 'data' in body ? { ...body, errors } : body });
  });
  await v.page.reload();
  await v.page.getByText('Likes and favs can’t be reached now.').waitFor();
  const heart = like(v.page, 'post:10195');
  assert.equal(await heart.getAttribute('aria-disabled'), 'true');
  assert.equal(await heart.getAttribute('aria-describedby'), 'unknown');
  assert.equal(await likes(v.page, 'post:10195').innerText(), '– likes');
  await v.page.mouse.wheel(0, 20_000);
  await until('a second page, without counts', async () => (await v.page.locator('article').count()) > 20);
  await v.page.mouse.wheel(0, -20_000);
  away = false;
  await v.page.getByRole('button', { name: 'Try again' }).click();
  await shows(v.page, 'post:10195', false, 0);
  assert.equal(await v.page.getByText('Likes and favs can’t be reached now.').count(), 0);
  await v.page.unrouteAll();
  await leave(v);
});

test('by keyboard alone', async () => {
  const v = await visit('hal');
  const focused = () => v.page.evaluate(() => document.activeElement?.getAttribute('aria-label') ?? document.activeElement?.textContent ?? '');
  const seen: string[] = [];
  for (let n = 0; n < 7; n++) {
    await v.page.keyboard.press('Tab');
    seen.push(await focused());
    const outline = await v.page.evaluate(() => getComputedStyle(document.activeElement ?? document.body).outlineStyle);
    assert.equal(outline, 'solid', `the focus is not to be seen on ${seen.at(-1)}`);
  }
  assert.deepEqual(seen.slice(0, 4), ['Sign out', 'Feed', 'My likes', 'My favs']);
  assert.match(seen.slice(4).join('\n'), /^Like: .*\nWho likes it: .*\nFav: /);
  await v.page.keyboard.press('Space');
  const first = v.page.getByRole('article').first();
  await until('Space favs', async () => (await first.getByRole('button', { name: /^Fav: / }).getAttribute('aria-pressed')) === 'true');
  await v.page.keyboard.press('Shift+Tab');
  await v.page.keyboard.press('Enter');
  await v.page.getByRole('dialog', { name: 'Who likes it' }).waitFor();
  for (let n = 0; n < 4; n++) {
    await v.page.keyboard.press('Tab');
    // The browser's own bar may have a turn; the page behind may not.
    assert.equal(await v.page.evaluate(() => document.activeElement === document.body || document.activeElement?.closest('dialog') !== null), true);
  }
  await v.page.keyboard.press('Escape');
  assert.match(await focused(), /^Who likes it/);
  await v.page.getByRole('link', { name: 'My favs' }).focus();
  await v.page.keyboard.press('Enter');
  await until('the heading of the list has the focus', async () => (await focused()) === 'My favs');
  await leave(v);
});

test('a server that dies during a like: taken back, said, and well again with the server', async () => {
  const v = await visit('ida');
  const id = 'post:10194';
  await shows(v.page, id, false, 0);
  server.freeze();
  await like(v.page, id).click();
  await shows(v.page, id, true, 1);
  await server.kill();
  await shows(v.page, id, false, 0);
  const alert = v.page.getByRole('alert').filter({ hasText: 'Your like was not counted' });
  await alert.getByText('The server does not answer.').waitFor();
  await server.restart();
  await alert.getByRole('button', { name: 'Try again' }).click();
  await shows(v.page, id, true, 1);
  await alert.waitFor({ state: 'detached' });
  await v.page.reload();
  await shows(v.page, id, true, 1);
  const other = v.complaints.filter((text) => !/net::ERR_|WebSocket/.test(text));
  assert.deepEqual(other, []); // Chromium itself says in red that there was no answer
  await v.context.close();
});

test('counts move again after the server was away', async () => {
  const v = await visit();
  const id = 'post:10200';
  await shows(v.page, id, false, 0);
  await server.kill();
  await server.restart();
  await server.like('ivy', id);
  await shows(v.page, id, false, 1);
  await v.context.close();
});

test('a page that could not be loaded is asked for again', async () => {
  const v = await visit();
  await v.page.route('**/graphql*', (route) => route.abort());
  await v.page.mouse.wheel(0, 20_000);
  await v.page.getByText('More posts could not be loaded.').waitFor();
  await v.page.unrouteAll();
  await v.page.getByRole('button', { name: 'Try again' }).click();
  await until('a second page', async () => (await v.page.locator('article').count()) > 20);
  await v.context.close();
});

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

async function audit(page: Page, where: string) {
  await page.evaluate(axe);
  const faults = await page.evaluate(async () => {
    const { axe } = window as unknown as { axe: { run(): Promise<{ violations: { id: string; impact: string; nodes: { html: string }[] }[] }> } };
    const { violations } = await axe.run();
    return violations.map(({ id, impact, nodes }) => `${impact} ${id}: ${nodes[0]?.html}`);
  });
  assert.deepEqual(faults, [], where);
}

for (const colorScheme of ['light', 'dark'] as const) {
  for (const [name, viewport] of [['phone', phone], ['desktop', desktop]] as const) {
    test(`axe-core finds nothing: ${colorScheme}, ${name}`, async () => {
      const v = await visit('jon', { colorScheme, viewport });
      const id = 'post:10199';
      const wide = () => v.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if ((await like(v.page, id).getAttribute('aria-pressed')) === 'false') await like(v.page, id).click();
      await audit(v.page, 'feed');
      assert.equal(await wide(), 0, 'it scrolls sideways');
      await likes(v.page, id).click();
      await v.page.getByRole('dialog').waitFor();
      await audit(v.page, 'likers');
      await v.page.keyboard.press('Escape');
      await v.page.getByRole('link', { name: 'My likes' }).click();
      await card(v.page, id).waitFor();
      await audit(v.page, 'My likes');
      await v.page.getByRole('button', { name: 'Sign out' }).click();
      await v.page.getByRole('button', { name: 'Sign in' }).first().click();
      await v.page.getByRole('dialog', { name: 'Sign in' }).waitFor();
      await audit(v.page, 'sign in');
      await leave(v);
    });
  }
}

// For README.md, when asked: they differ from one Chromium to the next.
test('screenshots', { skip: process.env['SCREENSHOTS'] ? false : 'only for make screenshots' }, async () => {
  const folder = join(root, 'docs', 'screenshots');
  mkdirSync(folder, { recursive: true });
  const ids = Array.from({ length: 12 }, (_, n) => `post:${10200 - n}`);
  for (const [n, author] of authors.entries()) {
    for (const [at, id] of ids.entries()) if ((n * 5 + at * 3) % 7 < 4) await server.like(author, id);
  }
  for (const [name, options] of [
    ['desktop', { viewport: desktop, colorScheme: 'light' }],
    ['phone', { viewport: phone, colorScheme: 'dark', deviceScaleFactor: 1 }],
  ] as const) {
    const v = await visit('kim', options);
    if (name === 'desktop') {
      await like(v.page, 'post:10200').click();
      await fav(v.page, 'post:10199').click();
    }
    await v.page.mouse.move(0, 0);
    await v.page.evaluate(() => (document.activeElement as HTMLElement).blur());
    await v.page.waitForTimeout(1000); // counts come to rest
    await v.page.screenshot({ path: join(folder, `${name}.png`) });
    await leave(v);
  }
});
