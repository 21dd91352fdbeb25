// What the page has to say besides showing it: errors in a box, the rest to
// screen readers only.
import type { ReactNode } from 'react';
import { createContext, useContext, useMemo, useState } from 'react';

interface Failure {
  text: string;
  retry?: () => void;
}

interface Notices {
  /** Shows and announces a failure until it is dismissed, or until undefined is given. */
  fail(failure: Failure | undefined): void;
  /** Tells screen readers. */
  tell(text: string): void;
}

const NoticeContext = createContext<Notices>({ fail: () => undefined, tell: () => undefined });

export const useNotices = () => useContext(NoticeContext);

export function NoticeProvider({ children }: { children: ReactNode }) {
  const [failure, fail] = useState<Failure>();
  const [text, tell] = useState('');
  const notices = useMemo(() => ({ fail, tell }), []);
  return (
    <NoticeContext value={notices}>
      {children}
      <p className="hidden" role="status">{text}</p>
      <div className="notice" role="alert">
        {failure && (
          <div className="box failure">
            <p>{failure.text}</p>
            {failure.retry && (
              <button type="button" onClick={() => { fail(undefined); failure.retry?.(); }}>Try again</button>
            )}
            <button type="button" onClick={() => fail(undefined)}>Dismiss</button>
          </div>
        )}
      </div>
    </NoticeContext>
  );
}
