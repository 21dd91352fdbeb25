// Like and fav: shown at once, taken back when the server says no.
import type { TypedDocumentNode } from '@apollo/client';
import { useMutation } from '@apollo/client/react';
import type { LikeMutation, LikeMutationVariables, PostCardFragment, ReactionsFragment } from './gql/graphql';
import { Fav, Like, Unfav, Unlike } from './operations';

export type Kind = 'like' | 'fav';
type Mutation = TypedDocumentNode<LikeMutation, LikeMutationVariables>;

const documents: Record<Kind, { set: Mutation; clear: Mutation }> = {
  like: { set: Like, clear: Unlike },
  fav: { set: Fav, clear: Unfav },
};

/** What a post looks like once the server has agreed. */
export function toggled(post: ReactionsFragment, kind: Kind): LikeMutation {
  const { __typename, id, countsAsOf, likeCount, favCount, viewerHasLiked, viewerHasFaved } = post;
  const subject = { __typename, id, countsAsOf, likeCount, favCount, viewerHasLiked, viewerHasFaved };
  if (kind === 'like') {
    subject.viewerHasLiked = !viewerHasLiked;
    subject.likeCount = moved(likeCount, subject.viewerHasLiked);
  } else {
    subject.viewerHasFaved = !viewerHasFaved;
    subject.favCount = moved(favCount, subject.viewerHasFaved);
  }
  return { reaction: { __typename: 'ReactionPayload', subject } };
}

/** A count that is not known stays so. */
function moved(count: number | null, up: boolean) {
  return count === null ? null : Math.max(0, count + (up ? 1 : -1));
}

/** Returns what turns a reaction on or off; it fails with the error of the server. */
export function useReaction(post: PostCardFragment, kind: Kind) {
  const on = kind === 'like' ? post.viewerHasLiked : post.viewerHasFaved;
  const [mutate] = useMutation(on ? documents[kind].clear : documents[kind].set);
  return () => mutate({ variables: { id: post.id }, optimisticResponse: toggled(post, kind) });
}
