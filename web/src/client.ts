// The Apollo Client of one session: with one token, or with none.
import { ApolloClient, ApolloLink, CombinedGraphQLErrors, HttpLink, InMemoryCache, ServerError } from '@apollo/client';
import type { FieldPolicy } from '@apollo/client';
import { ErrorLink } from '@apollo/client/link/error';
import { PersistedQueryLink } from '@apollo/client/link/persisted-queries';
import { GraphQLWsLink } from '@apollo/client/link/subscriptions';
import { relayStylePagination } from '@apollo/client/utilities';
import { OperationTypeNode } from 'graphql';
import { createClient } from 'graphql-ws';
import { Observable } from 'rxjs';
import possibleTypes from './gql/possible-types';

// Posts are shown although their counts can't be had now.
const defaultOptions = { watchQuery: { errorPolicy: 'all' }, query: { errorPolicy: 'all' } } as const;

declare module '@apollo/client' {
  namespace ApolloClient {
    namespace DeclareDefaultOptions {
      interface WatchQuery {
        errorPolicy: 'all';
      }
      interface Query {
        errorPolicy: 'all';
      }
    }
  }
}

export interface Settings {
  /** Address of the API, e.g. http://127.0.0.1:8080/graphql. */
  url: string;
  token?: string | undefined;
  /** Called when the server does not take the token (any more). */
  onUnauthenticated?: () => void;
  /** SHA-256 in hex. Without it documents are sent whole. */
  sha256?: ((text: string) => Promise<string>) | undefined;
  /** Where there is no global WebSocket. */
  webSocket?: unknown;
}

export interface Connection {
  client: ApolloClient;
  /** Ends what is open. The client is of no use after it. */
  close(): void;
}

export function connect({ url, token, onUnauthenticated, sha256, webSocket }: Settings): Connection {
  const authorization: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {};
  const http = new HttpLink({
    uri: url,
    // A GET that a foreign page could send as well is refused without it.
    headers: { ...authorization, 'apollo-require-preflight': 'true' },
    fetch: (input, init) => fetch(input, { ...init, signal: withTimeout(init?.signal) }),
  });
  const socket = createClient({
    url: url.replace(/^http/, 'ws'),
    webSocketImpl: webSocket,
    connectionParams: authorization, // browsers give an upgrade no headers
    retryAttempts: Infinity,
    shouldRetry: (closed) => !(isClose(closed) && closed.code === 4403), // the token
    retryWait: (retries) => sleep(Math.min(250 * 2 ** retries, 8000) * (1 + Math.random())),
  });
  const requests = sha256 ? new PersistedQueryLink({ sha256, useGETForHashedQueries: true }).concat(http) : http;
  const client = new ApolloClient({
    cache: makeCache(),
    link: ApolloLink.from([
      new ErrorLink(({ error }) => {
        if (isUnauthenticated(error)) onUnauthenticated?.();
      }),
      inOrder(),
      ApolloLink.split(
        ({ operationType }) => operationType === OperationTypeNode.SUBSCRIPTION,
        new GraphQLWsLink(socket),
        requests,
      ),
    ]),
    defaultOptions,
  });
  return {
    client,
    close: () => {
      client.stop();
      void socket.dispose();
    },
  };
}

export function makeCache() {
  return new InMemoryCache({
    ...possibleTypes,
    typePolicies: {
      Query: { fields: { feed: relayStylePagination() } },
      Post: { fields: { likers: nullablePagination() } },
      User: { fields: { likedPosts: nullablePagination(), favedPosts: nullablePagination() } },
    },
  });
}

/** relayStylePagination takes null for an empty list; here it says "not for you". */
function nullablePagination(): FieldPolicy {
  const pages = relayStylePagination();
  return {
    ...pages,
    merge: (existing, incoming, options) => {
      if (incoming && typeof pages.merge === 'function') return pages.merge(existing, incoming, options);
      return options.args?.['after'] ? existing : incoming; // a page that failed takes none with it
    },
  };
}

/** Sends mutations one after the other: two on their way at once may overtake each other. */
function inOrder() {
  let last = Promise.resolve();
  return new ApolloLink((operation, forward) => {
    if (operation.operationType !== OperationTypeNode.MUTATION) return forward(operation);
    return new Observable((observer) => {
      const before = last;
      last = new Promise((done) => {
        void before.then(() => forward(operation).subscribe(observer).add(done));
      });
    });
  });
}

export function isUnauthenticated(error: unknown) {
  return CombinedGraphQLErrors.is(error)
    ? error.errors.some(({ extensions }) => extensions?.['code'] === 'UNAUTHENTICATED')
    : ServerError.is(error) && error.statusCode === 401;
}

/** Says in a sentence why something could not be done. */
export function explain(error: unknown): string {
  if (ServerError.is(error)) return `The server answered with status ${error.statusCode}.`;
  if (!CombinedGraphQLErrors.is(error)) return 'The server does not answer.';
  const { message, extensions } = error.errors[0] ?? { message: 'no reason given' };
  switch (extensions?.['code']) {
    case 'UNAUTHENTICATED':
      return 'You are not signed in.';
    case 'NOT_FOUND':
      return 'The post is not there any more.';
    case 'RATE_LIMITED':
      return 'That was too much within a minute.';
    case 'OVERLOADED':
    case 'UNAVAILABLE':
      return 'The server can’t do it now.';
  }
  return `The server says: ${message}.`;
}

const timeout = 15_000;

function withTimeout(signal?: AbortSignal | null) {
  const limit = AbortSignal.timeout(timeout);
  return signal ? AbortSignal.any([signal, limit]) : limit;
}

function isClose(event: unknown): event is CloseEvent {
  return typeof event === 'object' && event !== null && 'code' in event;
}

function sleep(milliseconds: number) {
  return new Promise<void>((resolve) => setTimeout(resolve, milliseconds));
}
