// The three lists of posts: one query each, one way to show them.
import type { ErrorLike } from '@apollo/client';
import { useApolloClient, useQuery } from '@apollo/client/react';
import { useState } from 'react';
import { explain } from './client';
import type { PageFragment, PostCardFragment } from './gql/graphql';
import { failure, More } from './more';
import { useNotices } from './notice';
import { Feed, MyFavs, MyLikes, Refresh } from './operations';
import { PostCard } from './post';
import { useSession } from './session';

const first = 20;

export function FeedList() {
  const { data, error, fetchMore, refetch } = useQuery(Feed, { variables: { first } });
  return (
    <Posts
      connection={data?.feed} error={error} retry={refetch} empty="There is nothing here yet."
      more={(after) => failure(fetchMore({ variables: { after }, errorPolicy: 'all' }), (data) => data.feed)}
    />
  );
}

// A list that is opened again is asked for again, and shows what it had till then.
const fresh = { variables: { first }, fetchPolicy: 'cache-and-network', nextFetchPolicy: 'cache-first' } as const;

export function MyLikesList() {
  const { data, loading, error, fetchMore, refetch } = useQuery(MyLikes, fresh);
  return (
    <Posts
      connection={data?.viewer?.likedPosts} loading={loading} error={error} retry={refetch} empty="You like nothing yet."
      more={(after) => failure(fetchMore({ variables: { after }, errorPolicy: 'all' }), (data) => data.viewer?.likedPosts)}
    />
  );
}

export function MyFavsList() {
  const { data, loading, error, fetchMore, refetch } = useQuery(MyFavs, fresh);
  return (
    <Posts
      connection={data?.viewer?.favedPosts} loading={loading} error={error} retry={refetch} empty="You have no favs yet."
      more={(after) => failure(fetchMore({ variables: { after }, errorPolicy: 'all' }), (data) => data.viewer?.favedPosts)}
    />
  );
}

interface PostEdge {
  node: PostCardFragment;
}

interface PostsProps {
  connection: { edges: PostEdge[]; pageInfo: PageFragment } | null | undefined;
  /** More than the connection is on its way. */
  loading?: boolean;
  error: ErrorLike | undefined;
  retry: () => Promise<unknown>;
  more: (after: string | null) => Promise<ErrorLike | undefined>;
  empty: string;
}

function Posts({ connection, loading, error, retry, more, empty }: PostsProps) {
  const { tell } = useNotices();
  if (!connection) return error ? <Failed error={error} retry={retry} /> : <Skeletons />;
  const { edges, pageInfo } = connection;
  if (loading && edges.length === 0) return <Skeletons />; // it was empty when last seen
  return (
    <>
      <Unknown edges={edges} />
      {edges.length === 0 && <p className="box">{empty}</p>}
      {edges.map(({ node }) => <PostCard key={node.id} post={node} />)}
      {pageInfo.hasNextPage && (
        <More
          what="posts"
          load={async () => {
            const error = await more(pageInfo.endCursor);
            if (!error) tell('More posts are below.');
            return error;
          }}
        />
      )}
      {!pageInfo.hasNextPage && edges.length > 0 && <p className="end faint">That is all.</p>}
    </>
  );
}

/** Says that counts or flags are missing, and asks for them again. */
function Unknown({ edges }: { edges: PostEdge[] }) {
  const client = useApolloClient();
  const { signedIn } = useSession();
  const { tell } = useNotices();
  const [busy, setBusy] = useState(false);
  const ids = edges.map(({ node }) => node)
    .filter((post) => post.likeCount === null || (signedIn && post.viewerHasLiked === null))
    .map(({ id }) => id);
  if (ids.length === 0) return null;

  async function refresh() {
    if (busy) return;
    setBusy(true);
    for (let at = 0; at < ids.length; at += 100) {
      await client.query({ query: Refresh, variables: { ids: ids.slice(at, at + 100) }, fetchPolicy: 'network-only' })
        .catch(() => undefined); // what is still unknown stays below this button
    }
    setBusy(false);
    tell('Asked again.');
  }

  return (
    <div className="box failure" role="status">
      <p id="unknown">Likes and favs can’t be reached now. The posts are here; hearts and stars wait.</p>
      <button type="button" aria-disabled={busy} onClick={() => void refresh()}>Try again</button>
    </div>
  );
}

function Failed({ error, retry }: { error: ErrorLike; retry: () => Promise<unknown> }) {
  return (
    <div className="box failure" role="alert">
      <p>The posts could not be loaded. {explain(error)}</p>
      <button type="button" className="strong" onClick={() => void retry().catch(() => undefined)}>Try again</button>
    </div>
  );
}

function Skeletons() {
  return (
    <>
      <p className="hidden" role="status">Loading posts…</p>
      {[0, 1, 2, 3].map((n) => (
        <div key={n} className="card skeleton" aria-hidden="true"><i /><i /><i /></div>
      ))}
    </>
  );
}
