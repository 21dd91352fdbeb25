import type { FormEvent } from 'react';
import { useId, useState } from 'react';
import { connect, explain, isUnauthenticated } from './client';
import { Dialog } from './dialog';
import { Viewer } from './operations';
import { nameIn, url, useSession } from './session';
import { sha256 } from './sha256';

/** The sign-in dialog, when there is a reason for it. */
export function SignIn() {
  const { prompt, dismiss, signIn } = useSession();
  const [token, setToken] = useState('');
  const [problem, setProblem] = useState('');
  const [busy, setBusy] = useState(false);
  const field = useId();
  if (prompt === undefined) return null;

  async function submit(event: FormEvent) {
    event.preventDefault();
    setBusy(true);
    const reason = await refusal(token.trim());
    setBusy(false);
    setProblem(reason);
    if (reason) return;
    setToken('');
    signIn(token.trim());
  }

  return (
    <Dialog title="Sign in" onClose={dismiss}>
      <form onSubmit={(event) => void submit(event)}>
        <p>{prompt}</p>
        <label htmlFor={field}>Token</label>
        <input
          id={field} type="password" autoComplete="off" autoFocus required value={token}
          aria-describedby={`${field}-help ${field}-problem`} aria-invalid={problem !== ''}
          onChange={(event) => setToken(event.target.value)}
        />
        <p id={`${field}-help`} className="faint">
          <code>tallyfeed token --sub NAME</code> prints one. It is kept until this tab is closed.
        </p>
        <p id={`${field}-problem`} className="problem" role="alert">{problem}</p>
        <button type="submit" className="strong" aria-disabled={busy}>{busy ? 'Signing in…' : 'Sign in'}</button>
      </form>
    </Dialog>
  );
}

/** Asks the server why it does not take a token; empty when it does. */
async function refusal(token: string) {
  if (!/^[\w-]+\.[\w-]+\.[\w-]+$/.test(token)) return 'This is not a token: it has three parts with a dot between them.';
  const { client, close } = connect({ url, token, sha256 });
  try {
    const { data, error } = await client.query({ query: Viewer });
    if (isUnauthenticated(error)) return 'The server does not take this token.';
    return data?.viewer ? '' : explain(error);
  } catch (error) {
    return explain(error);
  } finally {
    close();
  }
}

/** Offers to use the token that came with the address. */
export function Offer() {
  const { offer, signIn, decline } = useSession();
  if (!offer) return null;
  const name = nameIn(offer);
  return (
    <section className="box" aria-label="Sign in">
      <p>The address you opened brings a token for {name}.</p>
      <button type="button" className="strong" onClick={() => signIn(offer)}>Sign in as {name}</button>
      <button type="button" onClick={decline}>Not now</button>
    </section>
  );
}
