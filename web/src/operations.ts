// Everything the page asks of the API. `npm run codegen` makes their types.
import { graphql } from './gql';

export const Counts = graphql(`
  fragment Counts on Reactable {
    id
    likeCount
    favCount
    countsAsOf
  }
`);

export const Reactions = graphql(`
  fragment Reactions on Reactable {
    ...Counts
    viewerHasLiked
    viewerHasFaved
  }
`);

export const PostCard = graphql(`
  fragment PostCard on Post {
    id
    title
    body
    publishedAt
    author {
      id
      name
    }
    ...Reactions
  }
`);

export const Page = graphql(`
  fragment Page on PageInfo {
    hasNextPage
    endCursor
  }
`);

export const Viewer = graphql(`
  query Viewer {
    viewer {
      id
      name
    }
  }
`);

export const Feed = graphql(`
  query Feed($first: Int!, $after: String) {
    feed(first: $first, after: $after) {
      edges {
        cursor
        node {
          ...PostCard
        }
      }
      pageInfo {
        ...Page
      }
    }
  }
`);

export const MyLikes = graphql(`
  query MyLikes($first: Int!, $after: String) {
    viewer {
      id
      likedPosts(first: $first, after: $after) {
        edges {
          cursor
          node {
            ...PostCard
          }
        }
        pageInfo {
          ...Page
        }
      }
    }
  }
`);

export const MyFavs = graphql(`
  query MyFavs($first: Int!, $after: String) {
    viewer {
      id
      favedPosts(first: $first, after: $after) {
        edges {
          cursor
          node {
            ...PostCard
          }
        }
        pageInfo {
          ...Page
        }
      }
    }
  }
`);

// What was null for a while, asked for again: the list keeps its pages.
export const Refresh = graphql(`
  query Refresh($ids: [ID!]!) {
    nodes(ids: $ids) {
      id
      ... on Post {
        ...Reactions
      }
    }
  }
`);

export const Likers = graphql(`
  query Likers($id: ID!, $first: Int!, $after: String) {
    post(id: $id) {
      id
      likers(first: $first, after: $after) {
        edges {
          cursor
          likedAt
          node {
            id
            name
          }
        }
        pageInfo {
          ...Page
        }
        totalCount
      }
    }
  }
`);

// The four answer in one shape, so that one hook can send any of them.
export const Like = graphql(`
  mutation Like($id: ID!) {
    reaction: like(input: { subjectId: $id }) {
      subject {
        ...Reactions
      }
    }
  }
`);

export const Unlike = graphql(`
  mutation Unlike($id: ID!) {
    reaction: unlike(input: { subjectId: $id }) {
      subject {
        ...Reactions
      }
    }
  }
`);

export const Fav = graphql(`
  mutation Fav($id: ID!) {
    reaction: fav(input: { subjectId: $id }) {
      subject {
        ...Reactions
      }
    }
  }
`);

export const Unfav = graphql(`
  mutation Unfav($id: ID!) {
    reaction: unfav(input: { subjectId: $id }) {
      subject {
        ...Reactions
      }
    }
  }
`);

export const CountsChanged = graphql(`
  subscription CountsChanged($ids: [ID!]!) {
    countsChanged(ids: $ids) {
      id
      likeCount
      favCount
      countsAsOf
    }
  }
`);
