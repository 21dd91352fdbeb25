import { useId, useState } from 'react';
import { explain } from './client';
import { useLiveCounts } from './counts';
import type { PostCardFragment } from './gql/graphql';
import { Heart, Star } from './icons';
import { LikersDialog } from './likers';
import { useNotices } from './notice';
import { useReaction } from './reaction';
import type { Kind } from './reaction';
import { useSession } from './session';

const day = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });

export function PostCard({ post }: { post: PostCardFragment }) {
  const [open, setOpen] = useState(false);
  const heading = useId();
  const { id, title, body, author, publishedAt, likeCount } = post;
  return (
    <article className="card" aria-labelledby={heading} ref={useLiveCounts(id)} data-id={id}>
      <p className="faint">
        {author.name || 'Somebody'} · <time dateTime={publishedAt}>{day.format(new Date(publishedAt))}</time>
      </p>
      <h3 id={heading}>{title}</h3>
      <p className="body">{body}</p>
      <div className="row">
        <Toggle post={post} kind="like" />
        <button type="button" className="count" aria-label={`Who likes it: ${counted(likeCount, 'like')}`} onClick={() => setOpen(true)}>
          {counted(likeCount, 'like')}
        </button>
        <Toggle post={post} kind="fav" />
        <span className="count">{counted(post.favCount, 'fav')}</span>
      </div>
      {open && <LikersDialog id={id} title={title} onClose={() => setOpen(false)} />}
    </article>
  );
}

/** A null is not a zero. */
function counted(count: number | null, word: string) {
  if (count === null) return `– ${word}s`;
  return `${count.toLocaleString()} ${word}${count === 1 ? '' : 's'}`;
}

const words = {
  like: { name: 'Like', Icon: Heart },
  fav: { name: 'Fav', Icon: Star },
};

function Toggle({ post, kind }: { post: PostCardFragment; kind: Kind }) {
  const { signedIn, ask } = useSession();
  const { fail } = useNotices();
  const react = useReaction(post, kind);
  const on = kind === 'like' ? post.viewerHasLiked : post.viewerHasFaved;
  const { name, Icon } = words[kind];
  const unknown = signedIn && on === null;

  async function press() {
    if (unknown) return;
    if (!signedIn) return ask(kind === 'like' ? 'Sign in to like a post.' : 'Sign in to keep a post among your favs.');
    try {
      await react();
      fail(undefined);
    } catch (error) {
      const what = kind === 'like' ? (on ? 'Your like was not taken back' : 'Your like was not counted') : on ? 'Your fav was not removed' : 'Your fav was not kept';
      fail({ text: `${what}: “${post.title}”. ${explain(error)}`, retry: () => void press() });
    }
  }

  return (
    <button
      type="button" className={`toggle ${kind}`} aria-pressed={on === true} aria-label={`${name}: ${post.title}`}
      aria-disabled={unknown} aria-describedby={unknown ? 'unknown' : undefined} onClick={() => void press()}
    >
      <Icon />
    </button>
  );
}
