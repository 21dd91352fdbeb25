import type { ReactNode } from 'react';
import { useEffect, useId, useRef } from 'react';

/** A modal dialog. The browser keeps the focus inside, and gives it back at the end. */
export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ReactNode }) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = ref.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={ref}
      aria-labelledby={id}
      onClose={onClose}
      onClick={(event) => event.target === ref.current && ref.current.close()} // beside it
    >
      <div className="inside">
        <header>
          <h2 id={id}>{title}</h2>
          <button type="button" onClick={() => ref.current?.close()}>Close</button>
        </header>
        {children}
      </div>
    </dialog>
  );
}
