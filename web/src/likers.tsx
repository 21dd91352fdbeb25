import { useQuery } from '@apollo/client/react';
import { explain } from './client';
import { Dialog } from './dialog';
import { failure, More } from './more';
import { Likers } from './operations';

const time = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });

export function LikersDialog({ id, title, onClose }: { id: string; title: string; onClose: () => void }) {
  return (
    <Dialog title="Who likes it" onClose={onClose}>
      <p className="faint">{title}</p>
      <List id={id} />
    </Dialog>
  );
}

function List({ id }: { id: string }) {
  const { data, error, fetchMore, refetch } = useQuery(Likers, {
    variables: { id, first: 10 }, fetchPolicy: 'cache-and-network', nextFetchPolicy: 'cache-first',
  });
  if (!data?.post) {
    if (!error) return <p role="status">{data ? 'The post is not there any more.' : 'Loading…'}</p>;
    return (
      <div role="alert">
        <p>The list could not be loaded. {explain(error)}</p>
        <button type="button" onClick={() => void refetch().catch(() => undefined)}>Try again</button>
      </div>
    );
  }
  const { likers } = data.post;
  if (!likers) return <p role="status">Who likes this post is not shown.</p>;
  if (likers.edges.length === 0) return <p role="status">{likers.totalCount ? 'They will be listed in a moment.' : 'Nobody yet.'}</p>;
  return (
    <>
      <ul className="likers">
        {likers.edges.map(({ cursor, likedAt, node }) => (
          <li key={cursor}>
            <span>{node.name || 'Somebody'}</span> <time className="faint" dateTime={likedAt}>{time.format(new Date(likedAt))}</time>
          </li>
        ))}
      </ul>
      {likers.pageInfo.hasNextPage && (
        <More
          what="people"
          load={() => failure(fetchMore({ variables: { after: likers.pageInfo.endCursor }, errorPolicy: 'all' }), (data) => data.post?.likers)}
        />
      )}
    </>
  );
}
