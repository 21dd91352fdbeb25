import { useQuery } from '@apollo/client/react';
import { useEffect, useRef } from 'react';
import { LiveCounts } from './counts';
import { FeedList, MyFavsList, MyLikesList } from './lists';
import { Viewer } from './operations';
import { routes, useRoute } from './route';
import { useSession } from './session';
import { Offer, SignIn } from './sign-in';

const titles = { feed: 'Feed', likes: 'My likes', favs: 'My favs' };
const lists = { feed: FeedList, likes: MyLikesList, favs: MyFavsList };

export function App() {
  const route = useRoute();
  const { signedIn } = useSession();
  const List = lists[route];
  return (
    <>
      <header className="top">
        <div className="row">
          <h1>Tallyfeed</h1>
          <Account />
        </div>
        <nav aria-label="Lists">
          {(['feed', 'likes', 'favs'] as const).map((to) => (
            <a key={to} href={routes[to]} aria-current={to === route ? 'page' : undefined}>{titles[to]}</a>
          ))}
        </nav>
      </header>
      <main>
        <Offer />
        <Title key={route} text={titles[route]} />
        <LiveCounts>
          {route === 'feed' || signedIn ? <List /> : <SignInFirst />}
        </LiveCounts>
      </main>
      <footer>
        <a href="/playground/">Ask the API yourself in the playground</a>
      </footer>
      <SignIn />
    </>
  );
}

let first = true; // the page itself has the focus when it is opened

/** The heading of a list takes the focus when the list is changed to. */
function Title({ text }: { text: string }) {
  const ref = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${text} – Tallyfeed`;
    if (!first) ref.current?.focus();
    first = false;
  }, [text]);
  return <h2 ref={ref} tabIndex={-1}>{text}</h2>;
}

function Account() {
  const { signedIn, signOut, ask } = useSession();
  const { data } = useQuery(Viewer, { skip: !signedIn });
  if (!signedIn) return <button type="button" onClick={() => ask('Sign in to like posts and to keep favs.')}>Sign in</button>;
  return (
    <div className="account">
      <span>{data?.viewer?.name || 'Signed in'}</span>
      <button type="button" onClick={signOut}>Sign out</button>
    </div>
  );
}

function SignInFirst() {
  const { ask } = useSession();
  return (
    <div className="box">
      <p>Your likes and favs are here once you are signed in.</p>
      <button type="button" className="strong" onClick={() => ask('Sign in to see your likes and favs.')}>Sign in</button>
    </div>
  );
}
