// Small repairs around Chainlit's page: its language, names for its nameless buttons, and the empty state.
(() => {
  const spanish = (navigator.language || "en").toLowerCase().startsWith("es");
  const root = document.documentElement;
  root.lang = spanish ? "es" : "en";

  const names = {
    "#chat-submit": ["Send", "Enviar"],
    "#stop-button": ["Stop", "Detener"],
    "#upload-button": ["Add files", "Añadir archivos"],
    "#upload-button-input": ["Files", "Archivos"],
    "#upload-drop-input": ["Files", "Archivos"],
    "#chat-input": ["Your question", "Tu pregunta"],
    "#theme-toggle": ["Theme", "Tema"],
    "#new-chat-button": ["New conversation", "Nueva conversación"],
    "#sidebar-trigger-button": ["Conversations", "Conversaciones"],
    "#search-chats-button": ["Search conversations", "Buscar conversaciones"],
    "#thread-options": ["More about this conversation", "Más sobre esta conversación"],
    "#user-nav-button": ["Your account", "Tu cuenta"],
    "#chat-settings-open-modal": ["Where to look", "Dónde buscar"],
    ".command-button": ["Documents", "Documentos"],
    "button:has(> svg.lucide-copy)": ["Copy", "Copiar"],
    "button:has(> svg.lucide-arrow-down)": ["To the end", "Ir al final"],
    "#side-view-title > button": ["Close the page", "Cerrar la página"],
  };

  const label = () => {
    for (const [selector, [english, inSpanish]] of Object.entries(names)) {
      for (const element of document.querySelectorAll(selector)) {
        if (!element.getAttribute("aria-label")) element.setAttribute("aria-label", spanish ? inSpanish : english);
      }
    }
    for (const image of document.querySelectorAll('img[src="/public/login.svg"]')) image.alt = "";
    for (const link of document.querySelectorAll('a[href="/library"]')) {
      const [icon, text] = [link.querySelector("img"), link.querySelector("span")];
      if (icon) icon.alt = "";
      if (text && spanish && text.textContent !== "Biblioteca") text.textContent = "Biblioteca";
    }
    for (const link of document.querySelectorAll('a[href^="/api/documents/"]:not(.citation), a[href^="/api/attachments/"]:not(.citation)')) {
      if (/^\[\d+\]$/.test(link.textContent)) link.classList.add("citation");
    }
  };

  let waiting = false;
  new MutationObserver(() => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      label();
    });
  }).observe(root, { childList: true, subtree: true });
  label();

  // A conversation opened by its address is connected to twice, and the connection whose cookie is set last stays: were
  // that the former one, the page would wait for the conversation for ever. So they are set one after the other.
  const send = window.fetch.bind(window);
  let former = Promise.resolve();
  window.fetch = (what, how) => {
    if (!String(what).endsWith("/set-session-cookie")) return send(what, how);
    const answer = former.then(() => send(what, how));
    former = answer.catch(() => undefined);
    return answer;
  };

  // The empty state invites to add documents as long as there are none.
  fetch("/api/documents?limit=1")
    .then((response) => (response.ok ? response.json() : null))
    .then((found) => found && (root.dataset.documents = found.documents.length ? "some" : "none"))
    .catch(() => undefined);
  fetch("/auth/config")
    .then((response) => response.json())
    .then((config) => (root.dataset.signIn = config.passwordAuth ? "password" : "none"))
    .catch(() => undefined);
})();
