// Light or dark as in the chat, and times as the person writes them. Loaded before anything is drawn.
(() => {
  const KEY = "vite-ui-theme"; // where the chat keeps it
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");

  const chosen = () => {
    try {
      return localStorage.getItem(KEY) || "system";
    } catch {
      return "system";
    }
  };
  const isDark = () => (chosen() === "system" ? dark.matches : chosen() === "dark");
  const show = () => {
    root.classList.toggle("dark", isDark());
    root.classList.toggle("light", !isDark());
  };
  show();
  dark.addEventListener("change", show);
  addEventListener("storage", show);

  const times = (within) => {
    const own = navigator.languages.find((tag) => tag.split("-")[0] === root.lang); // en-GB writes what en-US does not
    const write = new Intl.DateTimeFormat(own ?? root.lang, { dateStyle: "medium", timeStyle: "short" });
    for (const time of within.querySelectorAll("time[datetime]:not([title])")) {
      time.title = time.textContent;
      time.textContent = write.format(new Date(time.dateTime));
    }
  };
  globalThis.peritoTimes = times;

  document.addEventListener("DOMContentLoaded", () => {
    times(document);
    document.addEventListener("htmx:after:swap", () => times(document));
    document.querySelector("[data-theme-toggle]")?.addEventListener("click", () => {
      try {
        localStorage.setItem(KEY, isDark() ? "light" : "dark");
      } catch {
        return;
      }
      show();
    });
  });
})();
