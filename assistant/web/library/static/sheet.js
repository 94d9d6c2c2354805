// A document's page: a block and its place on the picture light up together.
(() => {
  const figure = document.querySelector(".paper");
  const picture = figure?.querySelector("img");
  const tip = figure?.querySelector(".tip");
  const places = () => [...document.querySelectorAll(".boxes [data-block]")];

  const light = (number) => {
    for (const one of document.querySelectorAll("[data-block].lit")) one.classList.remove("lit");
    if (number !== null) for (const one of document.querySelectorAll(`[data-block="${number}"]`)) one.classList.add("lit");
    const place = number === null ? null : places().find((one) => one.dataset.block === number);
    tip.hidden = !place;
    if (place) tip.textContent = place.getAttribute("aria-label");
  };
  for (const kind of ["pointerover", "focusin"]) {
    document.addEventListener(kind, (event) => {
      const one = event.target.closest?.("[data-block]");
      if (one) light(one.dataset.block);
    });
  }
  for (const kind of ["pointerout", "focusout"]) {
    document.addEventListener(kind, (event) => event.target.closest?.("[data-block]") && light(null));
  }
  document.addEventListener("click", (event) => {
    const place = event.target.closest?.(".boxes [data-block]");
    if (!place) return;
    event.preventDefault();
    const block = document.getElementById(`b${place.dataset.block}`);
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    block.scrollIntoView({ block: "center", behavior: calm ? "auto" : "smooth" });
    block.querySelector("summary").focus({ preventScroll: true });
  });

  const noPicture = () => {
    figure.hidden = true;
    document.querySelector(".no-picture").hidden = false;
  };
  if (picture) {
    picture.addEventListener("error", noPicture);
    if (picture.complete && !picture.naturalWidth) noPicture();
  }
  const strip = document.querySelector(".strip ol");
  const here = strip?.querySelector("[aria-current]");
  if (here) strip.scrollLeft = here.offsetLeft - strip.clientWidth / 2;

  // Read anew or published anew: show it when that has ended.
  const main = document.querySelector("main[data-document]");
  const typing = () => [...document.querySelectorAll(".misread[open] textarea")].some((area) => area.value !== area.defaultValue);
  let live = null;
  let before = main.dataset.status;
  const follow = () => {
    live?.close();
    if (document.hidden) return; // a browser has few connections for all its tabs
    live = new EventSource(`/library/live?${new URLSearchParams({ ids: main.dataset.document })}`);
    live.addEventListener("document", (event) => {
      const told = JSON.parse(event.data);
      document.getElementById("facts").querySelector(".badge").outerHTML = new DOMParser()
        .parseFromString(told.line, "text/html")
        .querySelector(".badge").outerHTML;
      if (told.final && before !== "final" && main.dataset.again === "yes" && !typing()) location.reload();
      before = told.final ? "final" : "busy";
    });
    live.addEventListener("gone", () => location.assign("/library"));
  };
  document.addEventListener("visibilitychange", follow);
  addEventListener("pagehide", () => live?.close());
  document.body.addEventListener("library-changed", () => (main.dataset.again = "yes"));
  if (["queued", "reading"].includes(main.dataset.status)) main.dataset.again = "yes";
  follow();
})();
