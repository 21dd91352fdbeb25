/* eslint-disable */
import * as types from './graphql';
import type { TypedDocumentNode as DocumentNode } from '@graphql-typed-document-node/core';

/**
 * Map of all GraphQL operations in the project.
 *
 * This map has several performance disadvantages:
 * 1. It is not tree-shakeable, so it will include all operations in the project.
 * 2. It is not minifiable, so the string of a GraphQL query will be multiple times inside the bundle.
 * 3. It does not support dead code elimination, so it will add unused operations.
 *
 * Therefore it is highly recommended to use the babel or swc plugin for production.
 * Learn more about it here: https://the-guild.dev/graphql/codegen/plugins/presets/preset-client#reducing-bundle-size
 */
type Documents = {
    "\n  fragment Counts on Reactable {\n    id\n    likeCount\n    favCount\n    countsAsOf\n  }\n": typeof types.CountsFragmentDoc,
    "\n  fragment Reactions on Reactable {\n    ...Counts\n    viewerHasLiked\n    viewerHasFaved\n  }\n": typeof types.ReactionsFragmentDoc,
    "\n  fragment PostCard on Post {\n    id\n    title\n    body\n    publishedAt\n    author {\n      id\n      name\n    }\n    ...Reactions\n  }\n": typeof types.PostCardFragmentDoc,
    "\n  fragment Page on PageInfo {\n    hasNextPage\n    endCursor\n  }\n": typeof types.PageFragmentDoc,
    "\n  query Viewer {\n    viewer {\n      id\n      name\n    }\n  }\n": typeof types.ViewerDocument,
    "\n  query Feed($first: Int!, $after: String) {\n    feed(first: $first, after: $after) {\n      edges {\n        cursor\n        node {\n          ...PostCard\n        }\n      }\n      pageInfo {\n        ...Page\n      }\n    }\n  }\n": typeof types.FeedDocument,
    "\n  query MyLikes($first: Int!, $after: String) {\n    viewer {\n      id\n      likedPosts(first: $first, after: $after) {\n        edges {\n          cursor\n          node {\n            ...PostCard\n          }\n        }\n        pageInfo {\n          ...Page\n        }\n      }\n    }\n  }\n": typeof types.MyLikesDocument,
    "\n  query MyFavs($first: Int!, $after: String) {\n    viewer {\n      id\n      favedPosts(first: $first, after: $after) {\n        edges {\n          cursor\n          node {\n            ...PostCard\n          }\n        }\n        pageInfo {\n          ...Page\n        }\n      }\n    }\n  }\n": typeof types.MyFavsDocument,
    "\n  query Refresh($ids: [ID!]!) {\n    nodes(ids: $ids) {\n      id\n      ... on Post {\n        ...Reactions\n      }\n    }\n  }\n": typeof types.RefreshDocument,
    "\n  query Likers($id: ID!, $first: Int!, $after: String) {\n    post(id: $id) {\n      id\n      likers(first: $first, after: $after) {\n        edges {\n          cursor\n          likedAt\n          node {\n            id\n            name\n          }\n        }\n        pageInfo {\n          ...Page\n        }\n        totalCount\n      }\n    }\n  }\n": typeof types.LikersDocument,
    "\n  mutation Like($id: ID!) {\n    reaction: like(input: { subjectId: $id }) {\n      subject {\n        ...Reactions\n      }\n    }\n  }\n": typeof types.LikeDocument,
    "\n  mutation Unlike($id: ID!) {\n    reaction: unlike(input: { subjectId: $id }) {\n      subject {\n        ...Reactions\n      }\n    }\n  }\n": typeof types.UnlikeDocument,
    "\n  mutation Fav($id: ID!) {\n    reaction: fav(input: { subjectId: $id }) {\n      subject {\n        ...Reactions\n      }\n    }\n  }\n": typeof types.FavDocument,
    "\n  mutation Unfav($id: ID!) {\n    reaction: unfav(input: { subjectId: $id }) {\n      subject {\n        ...Reactions\n      }\n    }\n  }\n": typeof types.UnfavDocument,
    "\n  subscription CountsChanged($ids: [ID!]!) {\n    countsChanged(ids: $ids) {\n      id\n      likeCount\n      favCount\n      countsAsOf\n    }\n  }\n": typeof types.CountsChangedDocument,
};
const documents: Documents = {
    "\n  fragment Counts on Reactable {\n    id\n    likeCount\n    favCount\n    countsAsOf\n  }\n": types.CountsFragmentDoc,
    "\n  fragment Reactions on Reactable {\n    ...Counts\n    viewerHasLiked\n    viewerHasFaved\n  }\n": types.ReactionsFragmentDoc,
    "\n  fragment PostCard on Post {\n    id\n    title\n    body\n    publishedAt\n    author {\n      id\n      name\n    }\n    ...Reactions\n  }\n": types.PostCardFragmentDoc,
    "\n  fragment Page on PageInfo {\n    hasNextPage\n    endCursor\n  }\n": types.PageFragmentDoc,
    "\n  query Viewer {\n    viewer {\n      id\n      name\n    }\n  }\n": types.ViewerDocument,
    "\n  query Feed($first: Int!, $after: String) {\n    feed(first: $first, after: $after) {\n      edges {\n        cursor\n        node {\n          ...PostCard\n        }\n      }\n      pageInfo {\n        ...Page\n      }\n    }\n  }\n": types.FeedDocument,
    "\n  query MyLikes($first: Int!, $after: String) {\n    viewer {\n      id\n      likedPosts(first: $first, after: $after) {\n        edges {\n          cursor\n          node {\n            ...PostCard\n          }\n        }\n        pageInfo {\n          ...Page\n        }\n      }\n    }\n  }\n": types.MyLikesDocument,
    "\n  query MyFavs($first: Int!, $after: String) {\n    viewer {\n      id\n      favedPosts(first: $first, after: $after) {\n        edges {\n          cursor\n          node {\n            ...PostCard\n          }\n        }\n        pageInfo {\n          ...Page\n        }\n      }\n    }\n  }\n": types.MyFavsDocument,
    "\n  query Refresh($ids: [ID!]!) {\n    nodes(ids: $ids) {\n      id\n      ... on Post {\n        ...Reactions\n      }\n    }\n  }\n": types.RefreshDocument,
    "\n  query Likers($id: ID!, $first: Int!, $after: String) {\n    post(id: $id) {\n      id\n      likers(first: $first, after: $after) {\n        edges {\n          cursor\n          likedAt\n          node {\n            id\n            name\n          }\n        }\n        pageInfo {\n          ...Page\n        }\n        totalCount\n      }\n    }\n  }\n": types.LikersDocument,
    "\n  mutation Like($id: ID!) {\n    reaction: like(input: { subjectId: $id }) {\n      subject {\n        ...Reactions\n      }\n    }\n  }\n": types.LikeDocument,
    "\n  mutation Unlike($id: ID!) {\n    reaction: unlike(input: { subjectId: $id }) {\n      subject {\n        ...Reactions\n      }\n    }\n  }\n": types.UnlikeDocument,
    "\n  mutation Fav($id: ID!) {\n    reaction: fav(input: { subjectId: $id }) {\n      subject {\n        ...Reactions\n      }\n    }\n  }\n": types.FavDocument,
    "\n  mutation Unfav($id: ID!) {\n    reaction: unfav(input: { subjectId: $id }) {\n      subject {\n        ...Reactions\n      }\n    }\n  }\n": types.UnfavDocument,
    "\n  subscription CountsChanged($ids: [ID!]!) {\n    countsChanged(ids: $ids) {\n      id\n      likeCount\n      favCount\n      countsAsOf\n    }\n  }\n": types.CountsChangedDocument,
};

/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 *
 *
 * @example
 * ```ts
 * const query = graphql(`query GetUser($id: ID!) { user(id: $id) { name } }`);
 * ```
 *
 * The query argument is unknown!
 * Please regenerate the types.
 */
export function graphql(source: string): unknown;

/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n  fragment Counts on Reactable {\n    id\n    likeCount\n    favCount\n    countsAsOf\n  }\n"): (typeof documents)["\n  fragment Counts on Reactable {\n    id\n    likeCount\n    favCount\n    countsAsOf\n  }\n"];
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n  fragment Reactions on Reactable {\n    ...Counts\n    viewerHasLiked\n    viewerHasFaved\n  }\n"): (typeof documents)["\n  fragment Reactions on Reactable {\n    ...Counts\n    viewerHasLiked\n    viewerHasFaved\n  }\n"];
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n  fragment PostCard on Post {\n    id\n    title\n    body\n    publishedAt\n    author {\n      id\n      name\n    }\n    ...Reactions\n  }\n"): (typeof documents)["\n  fragment PostCard on Post {\n    id\n    title\n    body\n    publishedAt\n    author {\n      id\n      name\n    }\n    ...Reactions\n  }\n"];
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n  fragment Page on PageInfo {\n    hasNextPage\n    endCursor\n  }\n"): (typeof documents)["\n  fragment Page on PageInfo {\n    hasNextPage\n    endCursor\n  }\n"];
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n  query Viewer {\n    viewer {\n      id\n      name\n    }\n  }\n"): (typeof documents)["\n  query Viewer {\n    viewer {\n      id\n      name\n    }\n  }\n"];
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n  query Feed($first: Int!, $after: String) {\n    feed(first: $first, after: $after) {\n      edges {\n        cursor\n        node {\n          ...PostCard\n        }\n      }\n      pageInfo {\n        ...Page\n      }\n    }\n  }\n"): (typeof documents)["\n  query Feed($first: Int!, $after: String) {\n    feed(first: $first, after: $after) {\n      edges {\n        cursor\n        node {\n          ...PostCard\n        }\n      }\n      pageInfo {\n        ...Page\n      }\n    }\n  }\n"];
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n  query MyLikes($first: Int!, $after: String) {\n    viewer {\n      id\n      likedPosts(first: $first, after: $after) {\n        edges {\n          cursor\n          node {\n            ...PostCard\n          }\n        }\n        pageInfo {\n          ...Page\n        }\n      }\n    }\n  }\n"): (typeof documents)["\n  query MyLikes($first: Int!, $after: String) {\n    viewer {\n      id\n      likedPosts(first: $first, after: $after) {\n        edges {\n          cursor\n          node {\n            ...PostCard\n          }\n        }\n        pageInfo {\n          ...Page\n        }\n      }\n    }\n  }\n"];
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n  query MyFavs($first: Int!, $after: String) {\n    viewer {\n      id\n      favedPosts(first: $first, after: $after) {\n        edges {\n          cursor\n          node {\n            ...PostCard\n          }\n        }\n        pageInfo {\n          ...Page\n        }\n      }\n    }\n  }\n"): (typeof documents)["\n  query MyFavs($first: Int!, $after: String) {\n    viewer {\n      id\n      favedPosts(first: $first, after: $after) {\n        edges {\n          cursor\n          node {\n            ...PostCard\n          }\n        }\n        pageInfo {\n          ...Page\n        }\n      }\n    }\n  }\n"];
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n  query Refresh($ids: [ID!]!) {\n    nodes(ids: $ids) {\n      id\n      ... on Post {\n        ...Reactions\n      }\n    }\n  }\n"): (typeof documents)["\n  query Refresh($ids: [ID!]!) {\n    nodes(ids: $ids) {\n      id\n      ... on Post {\n        ...Reactions\n      }\n    }\n  }\n"];
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n  query Likers($id: ID!, $first: Int!, $after: String) {\n    post(id: $id) {\n      id\n      likers(first: $first, after: $after) {\n        edges {\n          cursor\n          likedAt\n          node {\n            id\n            name\n          }\n        }\n        pageInfo {\n          ...Page\n        }\n        totalCount\n      }\n    }\n  }\n"): (typeof documents)["\n  query Likers($id: ID!, $first: Int!, $after: String) {\n    post(id: $id) {\n      id\n      likers(first: $first, after: $after) {\n        edges {\n          cursor\n          likedAt\n          node {\n            id\n            name\n          }\n        }\n        pageInfo {\n          ...Page\n        }\n        totalCount\n      }\n    }\n  }\n"];
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n  mutation Like($id: ID!) {\n    reaction: like(input: { subjectId: $id }) {\n      subject {\n        ...Reactions\n      }\n    }\n  }\n"): (typeof documents)["\n  mutation Like($id: ID!) {\n    reaction: like(input: { subjectId: $id }) {\n      subject {\n        ...Reactions\n      }\n    }\n  }\n"];
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n  mutation Unlike($id: ID!) {\n    reaction: unlike(input: { subjectId: $id }) {\n      subject {\n        ...Reactions\n      }\n    }\n  }\n"): (typeof documents)["\n  mutation Unlike($id: ID!) {\n    reaction: unlike(input: { subjectId: $id }) {\n      subject {\n        ...Reactions\n      }\n    }\n  }\n"];
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n  mutation Fav($id: ID!) {\n    reaction: fav(input: { subjectId: $id }) {\n      subject {\n        ...Reactions\n      }\n    }\n  }\n"): (typeof documents)["\n  mutation Fav($id: ID!) {\n    reaction: fav(input: { subjectId: $id }) {\n      subject {\n        ...Reactions\n      }\n    }\n  }\n"];
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n  mutation Unfav($id: ID!) {\n    reaction: unfav(input: { subjectId: $id }) {\n      subject {\n        ...Reactions\n      }\n    }\n  }\n"): (typeof documents)["\n  mutation Unfav($id: ID!) {\n    reaction: unfav(input: { subjectId: $id }) {\n      subject {\n        ...Reactions\n      }\n    }\n  }\n"];
/**
 * The graphql function is used to parse GraphQL queries into a document that can be used by GraphQL clients.
 */
export function graphql(source: "\n  subscription CountsChanged($ids: [ID!]!) {\n    countsChanged(ids: $ids) {\n      id\n      likeCount\n      favCount\n      countsAsOf\n    }\n  }\n"): (typeof documents)["\n  subscription CountsChanged($ids: [ID!]!) {\n    countsChanged(ids: $ids) {\n      id\n      likeCount\n      favCount\n      countsAsOf\n    }\n  }\n"];

export function graphql(source: string) {
  return (documents as any)[source] ?? {};
}

export type DocumentType<TDocumentNode extends DocumentNode<any, any>> = TDocumentNode extends DocumentNode<  infer TType,  any>  ? TType  : never;