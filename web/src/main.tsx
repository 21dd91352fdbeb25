import { createRoot } from 'react-dom/client';
import { App } from './app';
import { NoticeProvider } from './notice';
import { SessionProvider } from './session';
import './style.css';

const root = document.getElementById('root');
if (root) {
  createRoot(root).render(
    <NoticeProvider>
      <SessionProvider>
        <App />
      </SessionProvider>
    </NoticeProvider>,
  );
}
