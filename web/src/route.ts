import { useSyncExternalStore } from 'react';

export const routes = { feed: '#/', likes: '#/likes', favs: '#/favs' } as const;
export type Route = keyof typeof routes;

function subscribe(changed: () => void) {
  addEventListener('hashchange', changed);
  return () => removeEventListener('hashchange', changed);
}

/** Which list the address names. */
export function useRoute(): Route {
  const hash = useSyncExternalStore(subscribe, () => location.hash);
  return hash === routes.likes ? 'likes' : hash === routes.favs ? 'favs' : 'feed';
}
