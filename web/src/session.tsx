// Who is signed in. Each session has a client of its own, so that nothing one
// viewer has seen is left for the next.
import { ApolloProvider } from '@apollo/client/react';
import type { ReactNode } from 'react';
import { createContext, useCallback, useContext, useEffect, useMemo, useState } from 'react';
import { connect } from './client';
import { sha256 } from './sha256';

interface Session {
  signedIn: boolean;
  /** A token that came with the address, until it is taken or declined. */
  offer: string | undefined;
  /** Why one should sign in; undefined: no need. */
  prompt: string | undefined;
  signIn(token: string): void;
  signOut(): void;
  decline(): void;
  /** Opens the sign-in dialog with a reason. */
  ask(reason: string): void;
  dismiss(): void;
}

const SessionContext = createContext<Session | undefined>(undefined);

export function useSession() {
  const session = useContext(SessionContext);
  if (!session) throw new Error('useSession outside of SessionProvider');
  return session;
}

const key = 'tallyfeed-token';
export const url = new URL('/graphql', location.href).href;

export function SessionProvider({ children }: { children: ReactNode }) {
  const [token, setToken] = useState(() => sessionStorage.getItem(key) ?? undefined);
  const [offer, setOffer] = useState(takeOffer);
  const [prompt, setPrompt] = useState<string>();

  const change = useCallback((next: string | undefined, reason?: string) => {
    if (next) sessionStorage.setItem(key, next);
    else sessionStorage.removeItem(key);
    setToken(next);
    setPrompt(reason);
  }, []);

  useEffect(() => {
    const look = () => setOffer((before) => takeOffer() ?? before);
    addEventListener('hashchange', look);
    return () => removeEventListener('hashchange', look);
  }, []);

  const connection = useMemo(() => connect({
    url, token, sha256,
    onUnauthenticated: () => {
      if (token) change(undefined, 'Your token is not good any more. Sign in again to go on.');
    },
  }), [token, change]);
  useEffect(() => connection.close, [connection]);

  const session = useMemo<Session>(() => ({
    signedIn: token !== undefined,
    offer: offer === token ? undefined : offer,
    prompt,
    signIn: (next) => {
      setOffer(undefined);
      change(next);
    },
    signOut: () => change(undefined),
    decline: () => setOffer(undefined),
    ask: setPrompt,
    dismiss: () => setPrompt(undefined),
  }), [token, offer, prompt, change]);

  return (
    <SessionContext value={session}>
      <ApolloProvider client={connection.client} key={token ?? ''}>{children}</ApolloProvider>
    </SessionContext>
  );
}

/**
 * The server prints an address with a token behind the #, where it gets into no
 * log. It leaves the address bar and the history at once. It is offered and not
 * taken: else a link could sign somebody in as another.
 */
function takeOffer() {
  const token = /^#token=([\w.-]+)$/.exec(location.hash)?.[1];
  if (token) history.replaceState(null, '', location.pathname + location.search);
  return token;
}

/** Who a token is for, by its own account. */
export function nameIn(token: string) {
  try {
    const bytes = Uint8Array.from(atob((token.split('.')[1] ?? '').replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0));
    const { name, sub } = JSON.parse(new TextDecoder().decode(bytes)) as { name?: unknown; sub?: unknown };
    return String(name || sub || 'somebody');
  } catch {
    return 'somebody';
  }
}
