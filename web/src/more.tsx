import type { ErrorLike } from '@apollo/client';
import { useEffect, useRef, useState } from 'react';
import { explain } from './client';

interface MoreProps {
  /** What there is more of, e.g. posts. */
  what: string;
  /** Loads the next page. */
  load: () => Promise<ErrorLike | undefined>;
}

/** Loads the next page when it comes near, or when it is pressed. */
export function More({ what, load }: MoreProps) {
  const button = useRef<HTMLButtonElement>(null);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState('');

  async function press() {
    if (busy) return;
    setBusy(true);
    try {
      const error = await load();
      setProblem(error ? explain(error) : '');
    } catch (error) {
      setProblem(explain(error));
    }
    setBusy(false);
  }

  // The newest press, for an observer that is made anew after each page: one that
  // stays would not tell again of a button that has not left the screen.
  const latest = useRef(press);
  latest.current = press;
  useEffect(() => {
    if (busy || problem || !button.current) return;
    const observer = new IntersectionObserver(
      (entries) => entries.some(({ isIntersecting }) => isIntersecting) && void latest.current(),
      { rootMargin: '600px' },
    );
    observer.observe(button.current);
    return () => observer.disconnect();
  }, [busy, problem]);

  return (
    <div className="more">
      {problem && <p role="alert">More {what} could not be loaded. {problem}</p>}
      <button ref={button} type="button" aria-disabled={busy} onClick={() => void press()}>
        {busy ? 'Loading…' : problem ? 'Try again' : `Load more ${what}`}
      </button>
    </div>
  );
}

/** The error of a page that did not come. What is missing on a page that did is shown there. */
export async function failure<Data>(
  answer: Promise<{ data?: Data | undefined; error?: ErrorLike | undefined }>,
  page: (data: Data) => unknown,
): Promise<ErrorLike | undefined> {
  const { data, error } = await answer;
  return data && page(data) ? undefined : (error ?? new Error('no page'));
}
