// Files and folders on their way in: known by their content, sent in pieces, gone on with after a break.
(() => {
  const PIECE = 8 * 1024 * 1024;
  const AT_ONCE = 3;
  const PATIENCE = [1, 2, 5, 10, 20, 30, 30, 30]; // seconds before the next try, while the connection is lost
  const says = JSON.parse(document.getElementById("says").content.textContent);
  const say = (key, values = {}) =>
    (values.n === 1 && says[`${key}_one`] ? says[`${key}_one`] : says[key]).replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
  globalThis.peritoSay = say;

  const section = document.getElementById("sending");
  const lines = document.getElementById("lines");
  const target = document.getElementById("target");
  const limit = Number(document.getElementById("main").dataset.uploadMb);
  const waiting = [];
  const byDocument = new Map();
  let running = 0;

  class Refused extends Error {
    constructor({ code, said, passing }) {
      super(said);
      this.code = code;
      this.passing = passing;
    }
  }

  const element = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value === true) made.setAttribute(name, "");
      else if (value !== false && value !== undefined) made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  };

  const answer = async (response) => {
    const body = await response.json().catch(() => ({}));
    if (response.status === 401) location.assign("/login");
    if (body.error) throw new Refused(body.error.said ? body.error : { ...body.error, said: body.error.message, passing: response.status >= 500 });
    if (!response.ok && response.status !== 409) throw new Refused({ code: "", said: response.statusText, passing: response.status >= 500 });
    return body;
  };

  // One file, from the drop to its document.
  class Line {
    constructor(file, name, collection) {
      Object.assign(this, { file, name, collection, stopped: false, document: "", hash: "" });
      this.state = element("span", { class: "facts state" }, say("waiting"));
      this.bar = element("progress", { max: 100, value: 0, "aria-label": name });
      this.stop = element("button", { type: "button", class: "button small", onclick: () => this.cancel() }, say("stop"));
      this.acts = element("span", { class: "buttons" }, this.stop);
      this.item = element("li", {}, element("span", { class: "file" }, name), this.bar, element("span", { class: "outcome" }, this.state), this.acts);
    }

    show(text, share = null) {
      this.state.textContent = text;
      if (share !== null) this.bar.value = share;
    }

    cancel() {
      this.stopped = true;
      this.request?.abort();
      if (waiting.includes(this)) {
        waiting.splice(waiting.indexOf(this), 1);
        this.end(say("stopped"), "unsure");
      }
    }

    url(path = "") {
      const query = new URLSearchParams({ collection: this.collection, size: this.file.size, name: this.name });
      return `/library/sending/${this.hash}?${path || query}`;
    }

    async run() {
      this.stopped = false;
      this.item.dataset.tone = "";
      this.acts.replaceChildren(this.stop);
      try {
        if (this.file.size > limit * 1e6) throw new Refused({ code: "too_large", said: say("too_large", { n: limit }), passing: false });
        this.show(say("comparing"));
        this.hash ||= await peritoHash(this.file, () => this.stopped).catch(() => {
          throw new Refused({ code: "unreadable", said: say("unreadable"), passing: false });
        });
        if (!this.stopped) await this.patiently(() => this.bring());
        if (this.stopped) this.end(say("stopped"), "unsure", true);
      } catch (error) {
        this.fail(error);
      }
    }

    // Try again for a while what may pass: a lost connection, a full disk, another tab that sends the same.
    async patiently(step) {
      for (let attempt = 0; ; attempt += 1) {
        try {
          return await step();
        } catch (error) {
          if (this.stopped) return undefined;
          const passing = error instanceof Refused ? error.passing : true;
          if (!passing || attempt >= PATIENCE.length) throw error;
          this.show(error instanceof Refused ? error.message : say("again"));
          await new Promise((resolve) => setTimeout(resolve, PATIENCE[attempt] * 1000));
        }
      }
    }

    async bring() {
      const { known, received } = await answer(await fetch(this.url()));
      if (known) return this.arrived({ id: known }, true);
      let at = received;
      while (at < this.file.size && !this.stopped) at = await this.send(at);
      return this.stopped ? undefined : this.finish();
    }

    // A piece from `at` on; how many bytes are there afterwards. XMLHttpRequest tells how far it is, fetch does not.
    send(at) {
      return new Promise((resolve, reject) => {
        const request = new XMLHttpRequest();
        this.request = request;
        request.open("PUT", this.url(`offset=${at}`));
        request.responseType = "json";
        request.upload.onprogress = ({ loaded }) => this.showShare(at + loaded);
        request.onload = () => {
          const { received, error } = request.response ?? {};
          if (error) reject(new Refused(error));
          else if (received === undefined) reject(new Error(request.statusText));
          else resolve(received);
        };
        request.onerror = request.onabort = () => reject(new TypeError("connection lost"));
        request.send(this.file.slice(at, at + PIECE));
      });
    }

    showShare(bytes) {
      const share = Math.min(100, Math.floor((100 * bytes) / Math.max(1, this.file.size)));
      this.show(say("sending", { n: share }), share);
    }

    async finish(password = "") {
      const body = new URLSearchParams({ name: this.name, collection: this.collection, password });
      if (!this.file.size) await this.send(0);
      const { document: accepted, known } = await answer(await fetch(this.url(" ").trim(), { method: "POST", body }));
      return this.arrived(accepted, known);
    }

    arrived(accepted, known) {
      this.document = accepted.id;
      byDocument.set(accepted.id, this);
      this.bar.value = 100;
      if (known) this.end(say("known"), "sure");
      else this.follow(accepted);
      counted();
      document.dispatchEvent(new CustomEvent("perito:arrived", { detail: accepted.id }));
    }

    // What the server tells about the document from now on.
    follow({ line, final }) {
      if (this.item.dataset.tone) return;
      this.acts.replaceChildren();
      this.bar.hidden = true;
      const outcome = this.item.querySelector(".outcome");
      outcome.innerHTML = line; // made by our templates, which escape everything
      if (final) this.finished = true;
    }

    end(text, tone, retry = false) {
      this.show(text);
      this.bar.hidden = true;
      this.item.dataset.tone = tone;
      this.finished = true;
      this.acts.replaceChildren(...(retry ? [this.retry()] : []));
    }

    retry() {
      const again = () => {
        this.finished = false;
        this.bar.hidden = false;
        waiting.push(this);
        next();
      };
      return element("button", { type: "button", class: "button small", onclick: again }, say("retry"));
    }

    fail(error) {
      const refused = error instanceof Refused;
      this.end(`${say("failed")}: ${refused ? error.message : say("unreachable")}`, "bad", true);
      if (refused && error.code === "bad_request") this.hash = ""; // the file has changed since it was hashed
      if (refused && error.code === "encrypted_file") this.acts.replaceChildren(this.unlock());
    }

    unlock() {
      const label = say("password", { name: this.name });
      const field = element("input", { type: "password", autocomplete: "off", "aria-label": label, placeholder: label, required: true });
      const open = async (event) => {
        event.preventDefault();
        this.item.dataset.tone = "";
        try {
          await this.finish(field.value);
        } catch (error) {
          this.fail(error);
          this.acts.querySelector("input")?.focus();
        }
      };
      return element("form", { class: "unlock", onsubmit: open }, field, element("button", { class: "button small" }, say("unlock")));
    }
  }

  const counted = () => {
    const all = [...lines.children];
    const done = all.filter((item) => item.line.document).length;
    document.getElementById("sent-count").textContent = say("done", { done, n: all.length });
    section.hidden = !all.length;
  };

  const next = () => {
    while (running < AT_ONCE && waiting.length) {
      const line = waiting.shift();
      running += 1;
      line.run().finally(() => {
        running -= 1;
        next();
      });
    }
  };

  // A file from a folder keeps its way there in its name, so that two of the same name do not replace each other.
  const add = (file, path = file.webkitRelativePath || file.name) => {
    const name = path.split("/").filter(Boolean).join(" › ");
    const line = new Line(file, name, target.value.trim() || "default");
    lines.append(line.item);
    line.item.line = line;
    waiting.push(line);
  };

  const begin = () => {
    counted();
    next();
  };

  const entriesOf = (reader) => new Promise((resolve, reject) => reader.readEntries(resolve, reject));
  const walk = async (entry) => {
    if (entry.isFile) {
      const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
      if (!file.name.startsWith(".")) add(file, entry.fullPath);
      return;
    }
    const reader = entry.createReader();
    for (let found = await entriesOf(reader); found.length; found = await entriesOf(reader)) {
      for (const inner of found) await walk(inner);
    }
  };

  const drop = document.getElementById("drop");
  let inside = 0;
  const carriesFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  addEventListener("dragenter", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    inside += 1;
    drop.hidden = false;
  });
  addEventListener("dragleave", () => {
    inside = Math.max(0, inside - 1);
    drop.hidden = !inside;
  });
  addEventListener("dragover", (event) => carriesFiles(event) && event.preventDefault());
  addEventListener("drop", async (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    inside = 0;
    drop.hidden = true;
    const items = [...event.dataTransfer.items].filter((item) => item.kind === "file");
    const found = items.map((item) => [item.webkitGetAsEntry?.(), item.getAsFile()]); // both only now, not after a wait
    for (const [entry, file] of found) {
      if (entry?.isDirectory) await walk(entry);
      else if (file) add(file, file.name);
    }
    begin();
  });
  for (const id of ["files", "folder"]) {
    document.getElementById(id).addEventListener("change", (event) => {
      for (const file of event.target.files) if (!file.name.startsWith(".")) add(file);
      event.target.value = "";
      begin();
    });
  }
  document.getElementById("clear-sent").addEventListener("click", () => {
    for (const item of [...lines.children]) if (item.line.finished) item.remove();
    counted();
  });
  addEventListener("beforeunload", (event) => {
    if (running || waiting.length) event.preventDefault();
  });

  // For the list: whom to follow, and what came of it.
  globalThis.peritoSending = {
    followed: () => [...byDocument].filter(([, line]) => !line.finished).map(([id]) => id),
    told: (event) => byDocument.get(event.id)?.follow(event),
  };
})();
