// Keeps a page up to date, and sends its forms without leaving it. Without this script every page can be read.
//
// Rules
// - The server draws all that is shown: an event only says *that* something changed, and the script loads the page again.
//   Only the text that an agent is writing comes by the stream, made harmless by the server, and is put in as text.
// - Ages are counted by the server's clock, since the reader's may be wrong.
// - A card that a person reads or types in never moves: a decided card keeps its place, a new one comes last, and nothing
//   takes the focus. A key decides only the card that has the focus, and only by a button that is on the screen: the
//   buttons stand below the whole request.
// - What changes something needs the CSRF token of the login. The server gives it once, in the fragment of the address to
//   which the login leads, and this script keeps it for this origin: cookies go to every port of a host, this does not.
//   Without it the page can only be read.
// - While the connection is lost the page says that it may be old. It comes back by itself and misses nothing: the
//   stream goes on after the last event that was seen.
"use strict";

(() => {
  const $ = (id) => document.getElementById(id);
  const page = document.body.dataset.page;
  const cards = $("cards");
  const QUIET = 40000; // ms without a sign of life after which a connection counts as lost; the server beats every 15 s
  const GLANCE = 30000; // ms between two looks of a hidden inbox

  const announce = (text) => { $("news").textContent = text; };

  function askToSignIn(why) {
    const link = document.createElement("a");
    link.href = "/login?next=" + encodeURIComponent(location.pathname);
    link.textContent = "Sign in again";
    $("connection").replaceChildren(why + " ", link);
    $("connection").hidden = false;
  }

  // The page does not leave while a person types: it says that they are signed out, and where to sign in.
  let isOut = false;
  function signedOut() {
    isOut = true;
    askToSignIn("You are signed out; what you see may be old.");
    throw new Error("signed out");
  }

  const CSRF = "supervisor.csrf"; // the name under which the token is kept
  const READ_ONLY = "This browser may only read here: it has no key to decide with.";
  const given = /^#csrf=([\w-]+)$/.exec(location.hash)?.[1];
  if (given) {
    history.replaceState(null, "", location.pathname + location.search);
    try { localStorage.setItem(CSRF, given); } catch { /* it lasts as long as this page */ }
  }
  function csrf() {
    try { return localStorage.getItem(CSRF) ?? given ?? ""; } catch { return given ?? ""; }
  }

  let ahead = 0; // ms that the server's clock is ahead of the reader's
  function compareClocks(found) {
    const now = Date.parse(found.body.dataset.now);
    if (now) ahead = now - Date.now();
  }

  // Times are written again in the reader's time zone.
  function tellTimes() {
    for (const time of document.querySelectorAll("time")) {
      const at = new Date(time.dateTime);
      const exact = at.toLocaleString();
      const now = Date.now() + ahead;
      if (!("relative" in time.dataset)) {
        const isToday = at.toDateString() === new Date(now).toDateString();
        time.textContent = isToday ? at.toLocaleTimeString() : exact;
        time.title = exact;
        continue;
      }
      const seconds = Math.max(0, Math.floor((now - at) / 1000));
      const [size, unit] = seconds >= 172800 ? [86400, "days"] : seconds >= 3600 ? [3600, "h"]
        : seconds >= 60 ? [60, "min"] : [1, "s"];
      time.textContent = `${Math.floor(seconds / size)} ${unit} ago`;
      time.title = exact;
    }
  }

  async function load(url, options = {}) {
    const response = await fetch(url, { credentials: "same-origin", redirect: "follow", ...options });
    if (response.status === 401 || new URL(response.url).pathname === "/login") signedOut();
    const found = new DOMParser().parseFromString(await response.text(), "text/html");
    compareClocks(found);
    return [found, response];
  }

  // -- cards ---------------------------------------------------------------------------------------------------------

  const cardOf = (id) => document.getElementById("card-" + id);

  function count(pending) {
    if (!Number.isInteger(pending)) return;
    $("count").textContent = pending;
    $("count").hidden = !pending;
    if (page !== "inbox") return;
    document.title = (pending ? `(${pending}) ` : "") + "Inbox · supervisor";
    $("waiting").textContent = pending === 0 ? "nothing waits" : pending === 1 ? "1 decision waits for you"
      : `${pending} decisions wait for you, the oldest first`;
    const live = cards.querySelectorAll('[data-tone="pending"]').length;
    $("left-out").hidden = pending <= live;
    $("left-out-count").textContent = pending - live;
    $("empty").hidden = cards.children.length > 0 || pending > 0;
    $("tidy").hidden = !cards.querySelector('[data-card]:not([data-tone="pending"])');
  }

  function put(id, found) {
    const fresh = found.getElementById("card-" + id);
    const old = cardOf(id);
    if (fresh === null) return false;
    const node = document.adoptNode(fresh);
    if (old === null) {
      cards.append(node);
    } else {
      const hadFocus = old.contains(document.activeElement);
      node.style.minHeight = old.offsetHeight + "px"; // what lies below must not come under a finger
      old.replaceWith(node);
      const next = node.querySelector("[autofocus]"); // what the server says: the problems, or a field that was added
      if (next) next.focus();
      else if (hadFocus) node.focus({ preventScroll: true });
    }
    tellTimes();
    count(parseInt(found.getElementById("count").textContent, 10));
    return true;
  }

  async function changed(approval) {
    const old = cardOf(approval.id);
    const isPending = approval.status === "pending";
    if (old && (isPending ? old.dataset.tone === "pending" : old.dataset.tone !== "pending")) return;
    if (!old && (page !== "inbox" || !isPending || isFull())) { recount(); return; }
    const [found, response] = await load("/approvals/" + approval.id);
    if (!response.ok) throw new Error(response.statusText); // it comes again, with the stream
    if (old && found.getElementById("card-" + approval.id)?.dataset.tone === "pending") return;
    put(approval.id, found);
    const card = cardOf(approval.id);
    if (card && isPending) announce("New: " + card.getAttribute("aria-label"));
    else if (card) announce(card.getAttribute("aria-label") + ": " + card.querySelector(".ending").textContent.trim());
  }

  // Decided cards give up their reserved height when the person scrolls the page.
  function release() {
    for (const card of cards?.children ?? []) card.style.minHeight = "";
  }
  for (const moving of ["wheel", "touchmove"]) addEventListener(moving, release, { passive: true });

  const isFull = () => cards.querySelectorAll('[data-tone="pending"]').length >= Number(cards.dataset.most);

  let recounting = null;
  function recount() {
    recounting ??= setTimeout(async () => {
      recounting = null;
      try { count(parseInt((await load("/count"))[0].getElementById("count").textContent, 10)); }
      catch { /* the stream says that the connection is lost */ }
    }, 500);
  }

  // -- forms ---------------------------------------------------------------------------------------------------------

  async function send(form, button) {
    const body = new URLSearchParams(new FormData(form, button));
    body.set("csrf", csrf());
    const buttons = form.querySelectorAll("button");
    for (const each of buttons) each.disabled = true;
    try {
      return await load(form.action, { method: "POST", body, headers: { "X-Requested-By": "page" } });
    } finally {
      for (const each of buttons) each.disabled = false;
    }
  }

  async function decide(form, button) {
    const card = form.closest("[data-card]");
    card.querySelector(".unsent")?.remove();
    try {
      const [found, response] = await send(form, button);
      const why = found.querySelector("main p")?.textContent ?? response.statusText;
      if (!put(card.dataset.card, found)) complain(card, `Not counted: ${why}`);
    } catch {
      complain(card, isOut ? "Not sent: you are signed out. Nothing was decided."
        : "Not sent: there is no connection. Nothing was decided; try again.");
    }
  }

  function complain(card, text) {
    const line = document.createElement("p");
    line.className = "problem unsent";
    line.setAttribute("role", "alert");
    line.textContent = text;
    card.querySelector(".choices").before(line);
  }

  async function say(form, button) {
    try {
      const [found, response] = await send(form, button);
      $("reply").textContent = found.getElementById("reply")?.textContent ?? found.querySelector(".empty p")?.textContent;
      if (response.ok) $("text").value = "";
      refresh(found);
    } catch {
      $("reply").textContent = isOut ? "Not sent: you are signed out." : "Not sent: there is no connection. Try again.";
    }
  }

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post" || form.classList.contains("login")) return;
    if (form.closest("[data-card]")) {
      event.preventDefault();
      decide(form, event.submitter);
    } else if ("chat" in form.dataset) {
      event.preventDefault();
      say(form, event.submitter);
    } else {
      const field = form.elements.csrf ?? form.appendChild(Object.assign(document.createElement("input"), { type: "hidden", name: "csrf" }));
      field.value = csrf();
    }
  });

  $("tidy")?.addEventListener("click", () => {
    for (const card of cards.querySelectorAll('[data-card]:not([data-tone="pending"])')) card.remove();
    release();
    $("tidy").hidden = true;
    $("main").focus();
    count(parseInt($("count").textContent, 10));
  });

  // -- keys ----------------------------------------------------------------------------------------------------------

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || !cards) return;
    const active = document.activeElement;
    const card = active.closest?.("[data-card]");
    if (event.key === "Escape" && card && card !== active) {
      active.closest("details")?.removeAttribute("open");
      card.focus();
      return;
    }
    if (active.matches("input, textarea, select, [contenteditable]")) return;
    if (["j", "k", "ArrowDown", "ArrowUp"].includes(event.key)) {
      if (event.key.startsWith("Arrow") && card !== active) return; // elsewhere the arrows scroll
      const all = [...cards.querySelectorAll("[data-card]")];
      const step = event.key === "j" || event.key === "ArrowDown" ? 1 : -1;
      const next = card ? all[all.indexOf(card) + step] : all[0];
      if (next) { event.preventDefault(); release(); next.focus({ preventScroll: true }); next.scrollIntoView({ block: "nearest" }); }
      return;
    }
    if (card !== active) return; // a key decides the card that has the focus, and no other
    const target = card?.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (!target) return;
    event.preventDefault();
    if (target.matches("details, form")) {
      target.open = true;
      target.querySelector("textarea, select, input:not([type=hidden])").focus();
    } else if (isOnScreen(target)) {
      target.click();
    } else {
      target.scrollIntoView({ block: "end" });
      announce("Nothing is decided yet: read to the end of the card, then press again.");
    }
  });

  function isOnScreen(element) {
    const box = element.getBoundingClientRect();
    return box.top >= 0 && box.bottom <= innerHeight;
  }

  // Only one of a card's drawers is open.
  document.addEventListener("toggle", (event) => {
    const choices = event.target.closest?.(".choices");
    if (!choices || !event.target.open) return;
    for (const other of choices.querySelectorAll("details[open]")) if (!other.contains(event.target)) other.open = false;
  }, true);

  // -- a session's page ----------------------------------------------------------------------------------------------

  function refresh(found) {
    if (found.body.dataset.page !== "session") return; // an error
    for (const fresh of [...found.querySelectorAll("[data-card]")]) {
      if (cardOf(fresh.dataset.card)) continue;
      put(fresh.dataset.card, found);
      announce("New: " + fresh.getAttribute("aria-label"));
    }
    for (const old of cards.querySelectorAll('[data-tone="pending"]')) {
      if (!pendingIn(found).has(old.dataset.card)) changed({ id: old.dataset.card, status: "decided" });
    }
    $("asks").hidden = !cards.children.length;
    for (const old of document.querySelectorAll("[data-part]")) {
      const fresh = found.querySelector(`[data-part="${old.dataset.part}"]`);
      if (!fresh || old.contains(document.activeElement)) continue;
      const open = [...old.querySelectorAll("details")].map((each) => each.open);
      const node = document.adoptNode(fresh);
      [...node.querySelectorAll("details")].forEach((each, place) => { each.open = open[place] ?? each.open; });
      old.replaceWith(node);
    }
    if (!isWriting) $("writing").hidden = true;
    const seen = found.getElementById("seen");
    if (seen) $("seen").value = seen.value;
    const fresh = found.getElementById("count");
    if (fresh) count(parseInt(fresh.textContent, 10));
    tellTimes();
  }

  // What the agent is writing. Once the agent has said it, it stays until the page shows the message.
  let isWriting = false;
  function write(text) {
    isWriting = text.text !== "";
    if (isWriting) {
      $("written").textContent = text.text;
      $("unkept").textContent = text.left_out ? ` (without the first ${text.left_out} characters)` : "";
      $("writing").hidden = false;
    } else if (!$("writing").hidden) {
      refreshSoon(0);
    }
  }

  const pendingIn = (found) => new Set((found.body.dataset.pending ?? "").split(" "));

  let refreshing = null;
  let isOld = false; // whether something has happened since the page was asked for
  function refreshSoon(delay = 400) {
    isOld = true;
    refreshing ??= setTimeout(async () => {
      isOld = false;
      try { refresh((await load(location.href))[0]); } catch { /* the stream says that the connection is lost */ }
      refreshing = null;
      if (isOld) refreshSoon();
    }, delay);
  }

  // -- the stream ----------------------------------------------------------------------------------------------------

  let cursor = "";
  let stop = new AbortController();
  let wake = () => {};
  let isLost = false;

  function lost() {
    isLost = true;
    if (isOut) return;
    $("connection").textContent = "Connection lost, trying again. What you see may be old.";
    $("connection").hidden = false;
  }

  function connected() {
    if (isLost) announce("Connected again.");
    isLost = isOut = false;
    if (csrf()) $("connection").hidden = true;
    else askToSignIn(READ_ONLY);
    if (page === "session") refreshSoon(0);
  }

  // The server does not know our cursor: it is on an older copy of its store, or on another one. What is pending comes
  // again; what we show as pending is looked at.
  async function reset() {
    cursor = "";
    if (page === "session") refreshSoon(0);
    for (const card of cards?.querySelectorAll('[data-tone="pending"]') ?? []) {
      try { await changed({ id: card.dataset.card, status: "unknown" }); } catch { /* it is not there any more */ }
    }
    recount();
  }

  async function take(block) {
    const fields = {};
    for (const line of block.split("\n")) {
      const [, name, value] = /^([a-z]+): ?(.*)$/.exec(line) ?? [];
      if (name) fields[name] = value;
    }
    if (fields.event === "approval") await changed(JSON.parse(fields.data));
    else if (fields.event === "journal") refreshSoon();
    else if (fields.event === "text") write(JSON.parse(fields.data));
    else if (fields.event === "reset") await reset();
    if (fields.id) cursor = fields.id; // after it was shown: what failed half-way comes again
  }

  async function listen() {
    stop = new AbortController();
    const alive = () => { clearTimeout(alive.timer); alive.timer = setTimeout(() => stop.abort(), QUIET); };
    alive();
    try {
      const headers = { Accept: "text/event-stream", ...(cursor && { "Last-Event-ID": cursor }) };
      const response = await fetch(document.body.dataset.stream, { headers, signal: stop.signal, cache: "no-store" });
      if (response.status === 401) signedOut();
      if (!response.ok) throw new Error(response.statusText);
      connected();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        alive();
        const blocks = (text + value).split("\n\n");
        text = blocks.pop();
        for (const block of blocks) await take(block);
      }
    } finally {
      clearTimeout(alive.timer);
    }
  }

  // Browsers have six connections for all tabs together: a hidden page gives its own back. It hears what it missed when it
  // is looked at again; until then the inbox asks now and then what to count in its title.
  async function keepListening() {
    let pause = 500;
    for (;;) {
      while (document.hidden) await new Promise((done) => { wake = done; });
      const began = Date.now();
      try { await listen(); } catch { /* said below, whatever it was */ }
      if (document.hidden) continue;
      lost();
      if (Date.now() - began > 5000) pause = 500;
      await new Promise((done) => { wake = done; setTimeout(done, pause); });
      pause = Math.min(pause * 2, 8000);
    }
  }

  if (document.querySelector("form.viewer") && !csrf()) askToSignIn(READ_ONLY);
  addEventListener("storage", (event) => { if (event.key === CSRF && !isLost && !isOut) $("connection").hidden = true; });
  compareClocks(document);
  tellTimes();
  setInterval(tellTimes, 20000);
  const poll = Number(document.body.dataset.poll); // seconds: what happens below a session is not in its stream
  if (poll) setInterval(() => { if (!document.hidden && !isLost) refreshSoon(0); }, poll * 1000);
  if (document.body.dataset.stream) {
    addEventListener("offline", () => { lost(); stop.abort(); });
    addEventListener("online", () => wake());
    document.addEventListener("visibilitychange", () => { if (document.hidden) stop.abort(); else wake(); });
    if (page === "inbox") setInterval(() => { if (document.hidden) recount(); }, GLANCE);
    keepListening();
  }
})();
