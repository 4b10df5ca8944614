// The default theme. A link to a folded key opens the fold, which browsers do only when they load a page.
import DefaultTheme from 'vitepress/theme';
import './style.css';

export default {
  extends: DefaultTheme,
  enhanceApp({ router }) {
    if (typeof window === 'undefined') return;
    router.onAfterRouteChange = reveal;
    window.addEventListener('hashchange', reveal);
  },
};

function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const fold = target?.closest('details:not([open])');
  if (!fold) return;
  fold.open = true;
  target.scrollIntoView({ block: 'center' });
}
