// Live counts: one subscription for the posts on the screen.
import type { ApolloCache } from '@apollo/client';
import { CombinedGraphQLErrors } from '@apollo/client';
import { useSubscription } from '@apollo/client/react';
import type { ReactNode } from 'react';
import { createContext, useContext, useEffect, useMemo, useState } from 'react';
import type { CountsChangedSubscription } from './gql/graphql';
import { Counts, CountsChanged } from './operations';

const maxIds = 100; // of a subscription
const settle = 250; // ms: somebody who scrolls past does not subscribe

type Watch = (id: string, element: Element) => () => void;
const WatchContext = createContext<Watch>(() => () => undefined);

/** Returns a ref for the element that shows the post. */
export function useLiveCounts(id: string) {
  const watch = useContext(WatchContext);
  return useMemo(() => (element: Element | null) => (element ? watch(id, element) : undefined), [watch, id]);
}

export function LiveCounts({ children }: { children: ReactNode }) {
  const [visible] = useState(() => new VisibleIds());
  const [ids, setIds] = useState<string[]>([]);
  const [supported, setSupported] = useState(true);
  useEffect(() => visible.listen(setIds), [visible]);
  useSubscription(CountsChanged, {
    variables: { ids },
    skip: !supported || ids.length === 0,
    ignoreResults: true,
    fetchPolicy: 'no-cache', // applyCounts puts them where the posts are
    onData: ({ client, data }) => {
      if (data.data) applyCounts(client.cache, data.data.countsChanged);
    },
    // A server that has no such subscription is not asked again: counts stand still.
    onError: (error) => setSupported(!CombinedGraphQLErrors.is(error)),
  });
  return <WatchContext value={visible.watch}>{children}</WatchContext>;
}

/** Writes a change to its post, unless the post has newer counts: those of an own like, for one. */
export function applyCounts(cache: ApolloCache, change: CountsChangedSubscription['countsChanged']) {
  const { id, likeCount, favCount, countsAsOf } = change;
  const entry = { id: cache.identify({ __typename: 'Post', id }), fragment: Counts };
  const known = cache.readFragment(entry);
  if (known?.countsAsOf && countsAsOf && Date.parse(countsAsOf) < Date.parse(known.countsAsOf)) return;
  cache.writeFragment({ ...entry, data: { __typename: 'Post', id, likeCount, favCount, countsAsOf } });
}

class VisibleIds {
  readonly #ids = new Map<Element, string>();
  readonly #visible = new Set<string>();
  #observer: IntersectionObserver | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #changed: (ids: string[]) => void = () => undefined;

  listen(changed: (ids: string[]) => void) {
    this.#changed = changed;
    return () => clearTimeout(this.#timer);
  }

  readonly watch: Watch = (id, element) => {
    this.#observer ??= new IntersectionObserver((entries) => this.#see(entries));
    this.#ids.set(element, id);
    this.#observer.observe(element);
    return () => {
      this.#observer?.unobserve(element);
      this.#ids.delete(element);
      this.#set(id, false);
    };
  };

  #see(entries: IntersectionObserverEntry[]) {
    for (const { target, isIntersecting } of entries) {
      const id = this.#ids.get(target);
      if (id) this.#set(id, isIntersecting);
    }
  }

  #set(id: string, visible: boolean) {
    if (visible) this.#visible.add(id);
    else this.#visible.delete(id);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#changed([...this.#visible].sort().slice(0, maxIds)), settle);
  }
}
