// Apollo Client as the page sets it up, without a browser, against the program
// as it is built.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, test } from 'node:test';
import type { ApolloClient, TypedDocumentNode } from '@apollo/client';
import { CombinedGraphQLErrors, gql, NetworkStatus } from '@apollo/client';
import WebSocket from 'ws';
import { connect, explain, isUnauthenticated } from '../src/client';
import { applyCounts } from '../src/counts';
import type { CountsChangedSubscription } from '../src/gql/graphql';
import { CountsChanged, Feed, Like, Reactions, Refresh, Unlike, Viewer } from '../src/operations';
import { toggled } from '../src/reaction';
import { Server, until } from './server';

let server: Server;
const open: { close(): void }[] = [];

before(async () => {
  server = await Server.start();
});

after(async () => {
  for (const { close } of open) close();
  await server?.end();
});

const sha256 = (text: string) => Promise.resolve(createHash('sha256').update(text).digest('hex'));

function clientOf(sub?: string, settings: Partial<Parameters<typeof connect>[0]> = {}) {
  const token = sub && server.token(sub);
  const connection = connect({ url: server.api, token, sha256, webSocket: WebSocket, ...settings });
  open.push(connection);
  return connection.client;
}

/** The methods of the requests that something makes, and what they name the document by. */
async function requestsOf(act: () => Promise<unknown>) {
  const seen: string[] = [];
  const real = globalThis.fetch;
  globalThis.fetch = (input, init) => {
    const { searchParams } = new URL(String(input));
    const body = JSON.parse(typeof init?.body === 'string' ? init.body : '{}') as Record<string, unknown>;
    const text = (name: string) => searchParams.get(name) ?? JSON.stringify(body[name]) ?? '';
    seen.push([init?.method, text('extensions').includes('sha256Hash') && 'hash', text('query') && 'document'].filter(Boolean).join(' '));
    return real(input, init);
  };
  try {
    await act();
  } finally {
    globalThis.fetch = real;
  }
  return seen;
}

/** What the page would show of a post. */
function shown(client: ApolloClient, id: string) {
  const post = client.cache.readFragment({ id: `Post:${id}`, fragment: Reactions, fragmentName: 'Reactions', optimistic: true });
  assert.ok(post, `${id} is not in the cache`);
  return post;
}

async function loaded(client: ApolloClient) {
  const { data, error } = await client.query({ query: Feed, variables: { first: 20 } });
  assert.equal(error, undefined);
  return data?.feed.edges.map(({ node }) => node) ?? [];
}

test('a hash goes by GET, a miss brings the document, and after that the hash is enough', async () => {
  // A document that nobody has sent before.
  const query = gql(`query Fresh { viewer { id name again: id } }`);
  const ask = () => clientOf('ann').query({ query });
  assert.deepEqual(await requestsOf(ask), ['GET hash', 'POST hash document']);
  assert.deepEqual(await requestsOf(ask), ['GET hash']);
});

test('a mutation never goes by GET', async () => {
  const id = 'post:10200';
  const like = () => clientOf('bob').mutate({ mutation: Like, variables: { id } });
  const seen = [...(await requestsOf(like)), ...(await requestsOf(like))];
  assert.ok(seen.length >= 2 && seen.every((request) => request.startsWith('POST ')), seen.join(', '));
});

test('without a hash function documents go whole', async () => {
  const seen = await requestsOf(() => clientOf('ann', { sha256: undefined }).query({ query: Viewer }));
  assert.deepEqual(seen, ['POST document']);
});

test('a like is in the cache before the answer, and exact after it', async () => {
  const client = clientOf('cat');
  const [, post] = await loaded(client);
  assert.ok(post);
  await server.like('dan', post.id); // the client does not know
  const answer = client.mutate({ mutation: Like, variables: { id: post.id }, optimisticResponse: toggled(post, 'like') });
  assert.equal(shown(client, post.id).viewerHasLiked, true);
  assert.equal(shown(client, post.id).likeCount, 1);
  await answer;
  assert.equal(shown(client, post.id).viewerHasLiked, true);
  assert.equal(shown(client, post.id).likeCount, 2);
});

test('a like that is refused is taken back', async () => {
  const client = clientOf();
  const post = (await loaded(client))[2];
  assert.ok(post);
  const answer = client.mutate({ mutation: Like, variables: { id: post.id }, optimisticResponse: toggled(post, 'like') });
  assert.equal(shown(client, post.id).likeCount, 1);
  await assert.rejects(answer, (error) => isUnauthenticated(error) && explain(error) === 'You are not signed in.');
  assert.deepEqual([shown(client, post.id).likeCount, shown(client, post.id).viewerHasLiked], [0, null]);
});

test('a like and its opposite arrive in their order', async () => {
  const client = clientOf('eli');
  const post = (await loaded(client))[3];
  assert.ok(post);
  const sent: Promise<unknown>[] = [];
  for (let n = 0; n < 10; n++) {
    sent.push(client.mutate({ mutation: n % 2 ? Unlike : Like, variables: { id: post.id }, optimisticResponse: toggled(shown(client, post.id), 'like') }));
    assert.equal(shown(client, post.id).viewerHasLiked, n % 2 === 0);
  }
  await Promise.all(sent);
  assert.deepEqual([shown(client, post.id).likeCount, shown(client, post.id).viewerHasLiked], [0, false]);
});

test('an error at one place leaves the rest', async () => {
  const { data, error } = await clientOf().query({ query: Refresh, variables: { ids: ['post:10200', 'nonsense', 'post:10199'] } });
  assert.ok(CombinedGraphQLErrors.is(error));
  assert.deepEqual(error.errors.map(({ path }) => path), [['nodes', 1]]);
  assert.deepEqual(data?.nodes.map((node) => node?.id), ['post:10200', undefined, 'post:10199']);
});

test('a token that is not good is told', async () => {
  let told = 0;
  const client = clientOf(undefined, { token: 'a.b.c', onUnauthenticated: () => told++ });
  const { data, error } = await client.query({ query: Viewer });
  assert.ok(isUnauthenticated(error));
  assert.deepEqual([data, told], [undefined, 1]);
});

test('pages become one list, each post once', async (t) => {
  const client = clientOf('fox');
  const pages = client.watchQuery({ query: Feed, variables: { first: 20 } });
  const ended = pages.subscribe({});
  await until('the first page', () => pages.getCurrentResult().networkStatus === NetworkStatus.ready);
  let requests = 1;
  for (;;) {
    const { hasNextPage, endCursor } = list().pageInfo;
    if (!hasNextPage) break;
    await pages.fetchMore({ variables: { after: endCursor ?? null }, errorPolicy: 'all' });
    requests++;
  }
  const ids = list().edges.map(({ node }) => node.id);
  const { nodes } = await all();
  assert.deepEqual(ids, nodes);
  t.diagnostic(`${ids.length} posts in ${requests} pages`);
  ended.unsubscribe();

  function list() {
    const data = client.readQuery({ query: Feed, variables: { first: 20 } });
    assert.ok(data);
    return data.feed;
  }

  async function all() {
    type Page = { feed: { nodes: { id: string }[]; pageInfo: { endCursor: string | null; hasNextPage: boolean } } };
    const found: string[] = [];
    for (let after: string | null = null; ;) {
      const { feed }: Page = await server.ask<Page>(server.token('fox'), 'query($after:String){feed(first:100,after:$after){nodes{id} pageInfo{endCursor hasNextPage}}}', { after });
      found.push(...feed.nodes.map(({ id }) => id));
      if (!feed.pageInfo.hasNextPage) return { nodes: found };
      after = feed.pageInfo.endCursor;
    }
  }
});

test('a list that is for another stays null, and does not become empty', async () => {
  const query: TypedDocumentNode<{ node: { favedPosts: unknown } | null }, { id: string }> = gql(`query Theirs($id: ID!) { node(id: $id) { id ... on User { favedPosts(first: 5) { edges { cursor } pageInfo { hasNextPage } } } } }`);
  await server.like('gil', 'post:10180'); // who has done nothing yet is nobody to others
  const { data: mine } = await clientOf('gil').query({ query: Viewer });
  assert.ok(mine?.viewer);
  const { data, error } = await clientOf('hob').query({ query, variables: { id: mine.viewer.id } });
  assert.equal(error, undefined);
  assert.equal(data?.node?.favedPosts, null);
});

test('counts that are older than an own like are not written over it', async () => {
  const client = clientOf('kit');
  const post = (await loaded(client))[4];
  assert.ok(post);
  await client.mutate({ mutation: Like, variables: { id: post.id } });
  const change = (likeCount: number, countsAsOf: string | null) =>
    applyCounts(client.cache, { __typename: 'CountsChange', id: post.id, likeCount, favCount: 0, countsAsOf });
  change(0, '2020-01-01T00:00:00Z');
  assert.equal(shown(client, post.id).likeCount, 1);
  change(7, '2099-01-01T00:00:00Z');
  assert.equal(shown(client, post.id).likeCount, 7);
  assert.equal(shown(client, post.id).viewerHasLiked, true);
});

test('live counts: at once, on a change, and again after the server was away', async (t) => {
  const id = 'post:10190';
  const seen: CountsChangedSubscription['countsChanged'][] = [];
  let problem: unknown;
  const subscription = clientOf().subscribe({ query: CountsChanged, variables: { ids: [id] }, fetchPolicy: 'no-cache' }).subscribe({
    next: ({ data, error }) => {
      problem ??= error;
      if (data) seen.push(data.countsChanged);
    },
    error: (error: unknown) => (problem = error),
  });
  const counts = async (what: string, likes: number) => {
    const start = Date.now();
    await until(what, () => {
      assert.equal(problem, undefined);
      return seen.at(-1)?.likeCount === likes;
    });
    t.diagnostic(`${what}: ${Date.now() - start} ms`);
  };
  await counts('the counts of now', 0);
  await server.like('lea', id);
  await counts('a like', 1);
  await server.kill();
  await server.restart();
  await server.like('max', id);
  await counts('a like after a restart', 2);
  assert.ok(seen.every((change) => change.id === id));
  subscription.unsubscribe();
});
