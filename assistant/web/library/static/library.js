// The list: what is selected, what changes by itself, what is said aloud.
(() => {
  const say = globalThis.peritoSay;
  const sending = globalThis.peritoSending;
  const heard = document.getElementById("heard");
  let live = null;
  let count = null;
  let loud = [];

  const boxes = () => [...document.querySelectorAll('#results input[name="ids"]')];
  const refresh = () => document.body.dispatchEvent(new CustomEvent("library-changed"));

  // -- selection
  const countSelected = () => {
    const bulk = document.getElementById("bulk");
    if (!bulk) return;
    const chosen = boxes().filter((box) => box.checked).length;
    bulk.hidden = !chosen;
    document.getElementById("selected").textContent = chosen ? say("selected", { n: chosen }) : "";
    const every = document.getElementById("all");
    every.checked = chosen > 0 && chosen === boxes().length;
    every.indeterminate = chosen > 0 && !every.checked;
  };
  document.addEventListener("change", (event) => {
    if (event.target.id === "all") for (const box of boxes()) box.checked = event.target.checked;
    if (event.target.id === "all" || event.target.name === "ids") countSelected();
  });
  document.addEventListener("click", (event) => {
    const opener = event.target.closest?.("[data-open]");
    if (opener) document.getElementById(opener.dataset.open).showModal();
    if (event.target.closest?.("[data-close]")) event.target.closest("dialog").close();
  });

  // -- aloud: a document that has ended, several at once as their number
  let speaking = 0;
  const aloud = (text) => {
    loud.push(text);
    clearTimeout(speaking);
    speaking = setTimeout(() => {
      heard.textContent = loud.length > 3 ? say("said_many", { n: loud.length }) : loud.join(" ");
      loud = [];
    }, 1500);
  };

  // -- live
  const replaceRow = (told) => {
    const row = document.getElementById(`doc-${told.id}`);
    if (!row) return;
    const holder = document.createElement("template");
    holder.innerHTML = told.row; // made by our templates, which escape everything
    const fresh = holder.content.querySelector("tr");
    const focused = row.contains(document.activeElement) ? document.activeElement : null;
    const place = focused ? [...row.querySelectorAll("a, button, input")].indexOf(focused) : -1;
    fresh.querySelector('input[name="ids"]').checked = row.querySelector('input[name="ids"]').checked;
    if (row.dataset.final === "no" && told.final) aloud(told.heard);
    row.replaceWith(fresh);
    htmx.process(fresh);
    globalThis.peritoTimes(fresh);
    if (place >= 0) [...fresh.querySelectorAll("a, button, input")][place]?.focus();
  };
  const listen = () => {
    live?.close();
    if (document.hidden) return; // a browser has few connections for all its tabs
    const shown = [...document.querySelectorAll("#results tr[data-id]")].map((row) => row.dataset.id);
    const ids = [...new Set([...shown, ...sending.followed()])];
    live = new EventSource(`/library/live?${new URLSearchParams({ ids: ids.join(",") })}`);
    const on = (name, take) => live.addEventListener(name, (event) => take(JSON.parse(event.data)));
    on("document", (told) => {
      replaceRow(told);
      sending.told(told);
    });
    on("gone", ({ id }) => document.getElementById(`doc-${id}`)?.remove());
    on("sums", (sums) => {
      const line = document.getElementById("sums");
      if (line && !location.search) line.innerHTML = sums.line;
      if (count !== null && count !== sums.count) refreshUnlessBusy();
      count = sums.count;
    });
  };
  // Nothing moves under the hand of someone who is choosing or typing in the list.
  const refreshUnlessBusy = () => {
    const within = document.activeElement?.closest?.("#results");
    if (!boxes().some((box) => box.checked) && !within) refresh();
  };
  let arriving = 0;
  document.addEventListener("perito:arrived", () => {
    clearTimeout(arriving);
    arriving = setTimeout(() => {
      refreshUnlessBusy();
      listen();
    }, 400);
  });
  document.addEventListener("htmx:after:swap", () => {
    countSelected();
    listen();
  });
  document.addEventListener("visibilitychange", listen);
  addEventListener("pagehide", () => live?.close());
  addEventListener("pageshow", (event) => event.persisted && listen());
  countSelected();
  listen();
})();
