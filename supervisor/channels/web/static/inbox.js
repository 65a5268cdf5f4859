// Keeps a page up to date, and sends its forms without leaving it. Without this script every page can be read.
//
// Rules
// - The server draws all that is shown: an event only says *that* something changed, and the script loads the page again.
//   Only the text that an agent is writing comes by the stream, made harmless by the server, and is put in as text.
// - What a form sends is in one of three states: sending, which the page tells after a second; answered; or not known, since no
//   answer came. Then only the server knows what became of it: the page says so, asks, and shows what the server says.
// - Ages are counted by the server's clock, since the reader's may be wrong.
// - No card moves but by the press of the person who reads it: a decided one keeps its place and its height, a new one
//   comes last, and what the page says of a press has its room before. Nothing takes the focus, and what a person typed is
//   not thrown away. A key decides only the card that has the focus, and only by a button that is on the screen: the
//   buttons stand below the whole request.
// - A decided card keeps the facts that it shows: the server draws the rest, unless what runs has changed.
// - Approve counts once the card shows all of what runs: the first press opens what is folded.
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
  const SLOW = 1000; // ms after which the page says that it is sending
  const LATE = 10000; // ms after which an answer counts as lost

  const announce = (text) => { $("news").textContent = text; };

  function askToSignIn(why) {
    const link = document.createElement("a");
    link.href = "/login?next=" + encodeURIComponent(location.pathname);
    link.textContent = "Sign in again";
    $("connection").replaceChildren(why + " ", link);
    $("connection").hidden = false;
  }

  // The page does not leave while a person types: it says that they are signed out, and where to sign in.
  class SignedOut extends Error {}
  let isOut = false;
  function signedOut() {
    isOut = true;
    askToSignIn("You are signed out; what you see may be old.");
    throw new SignedOut();
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

  // Times are written again in the reader's time zone. What says the same is left alone.
  const clockTime = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
  const dayAndTime = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });
  function tellTimes(within = document) {
    const now = Date.now() + ahead;
    const today = new Date(now).toDateString();
    for (const time of within.querySelectorAll("time")) {
      const at = new Date(time.dateTime);
      time.title = dayAndTime.format(at);
      if (!("relative" in time.dataset)) {
        time.textContent = at.toDateString() === today ? clockTime.format(at) : time.title;
        continue;
      }
      const seconds = Math.max(0, Math.floor((now - at) / 1000));
      const [size, unit] = seconds >= 172800 ? [86400, "days"] : seconds >= 3600 ? [3600, "h"]
        : seconds >= 60 ? [60, "min"] : [1, "s"];
      const text = `${Math.floor(seconds / size)} ${unit} ago`;
      if (time.textContent !== text) time.textContent = text;
    }
  }

  async function load(url, options = {}) {
    const headers = { "X-Requested-By": "page", ...options.headers };
    const given = { credentials: "same-origin", redirect: "follow", signal: AbortSignal.timeout(LATE), ...options, headers };
    const response = await fetch(url, given);
    if (response.status === 401 || new URL(response.url).pathname === "/login") signedOut();
    const found = new DOMParser().parseFromString(await response.text(), "text/html");
    compareClocks(found);
    return [found, response];
  }

  // -- cards ---------------------------------------------------------------------------------------------------------

  const cardOf = (id) => document.getElementById("card-" + id);

  const live = (within = cards) => within.querySelectorAll('[data-tone="pending"]');
  const isFolded = (card) => card.classList.contains("folded");

  function count(pending) {
    if (!Number.isInteger(pending)) return;
    $("count").textContent = pending;
    $("count").hidden = !pending;
    if (page !== "inbox") return;
    document.title = (pending ? `(${pending}) ` : "") + "Inbox · supervisor";
    $("waiting").textContent = pending === 0 ? "nothing waits" : pending === 1 ? "1 decision waits for you"
      : `${pending} decisions wait for you`;
    const shown = live().length;
    $("left-out").hidden = pending <= shown;
    $("left-out-count").textContent = pending - shown;
    $("hush").hidden = !pending;
    $("empty").hidden = cards.querySelector("[data-card]") !== null || pending > 0;
    $("tidy").hidden = !cards.querySelector('[data-card]:not([data-tone="pending"])');
  }

  // A section says how many of it wait, and since when.
  function countSection(section) {
    const text = section?.querySelector("[data-waiting]");
    if (!text) return;
    const times = [...live(section)].map((card) => card.querySelector("time")).sort((a, b) => a.dateTime < b.dateTime ? -1 : 1);
    text.replaceChildren(times.length ? `${times.length} waiting, the oldest ` : "none waits", ...times.slice(0, 1).map((each) => each.cloneNode(true)));
  }

  function sectionOf(card) {
    const last = cards.lastElementChild;
    if (last?.dataset.root === card.dataset.root) return last;
    const section = $("section").content.firstElementChild.cloneNode(true);
    section.dataset.root = card.dataset.root;
    section.querySelector("h2 span").textContent = card.dataset.title;
    section.querySelector("a").textContent = card.dataset.root;
    section.querySelector("a").href = "/sessions/" + encodeURIComponent(card.dataset.root);
    cards.append(section);
    return section;
  }

  // Tell the server that an open card shows the facts of its call: of a decided one it draws all the rest.
  const hasFacts = (id) => cardOf(id)?.querySelector(".body") ? { "X-Has-Facts": "1" } : {};

  // Draw a decided card anew around the facts that it shows. What is long is not laid out again.
  function redraw(old, node) {
    const [facts, more] = [old.querySelector(".facts"), old.querySelector(".more")];
    for (const { name, value } of node.attributes) old.setAttribute(name, value);
    old.querySelector("header").replaceWith(node.querySelector("header"));
    for (const each of old.querySelectorAll(":scope > :not(header, .body)")) each.remove();
    while (facts.nextSibling !== more) facts.nextSibling.remove();
    more.before(...node.querySelector(".body").children);
    more.parentNode.querySelector("[data-kept]").remove();
    return old;
  }

  // Put in a card as the server has drawn it. `keeps`: whether what was typed in the old one is still of use.
  function put(id, found, keeps = true) {
    const fresh = found.getElementById("card-" + id);
    const old = cardOf(id);
    if (fresh === null) return false;
    const node = document.adoptNode(fresh);
    tellTimes(node);
    if (old === null) {
      (page === "inbox" ? sectionOf(node) : cards).append(node);
    } else {
      const hadFocus = old.contains(document.activeElement);
      const typed = keeps && node.dataset.tone !== "pending" ? typedIn(old) : "";
      const height = node.dataset.tone !== "pending" ? old.getBoundingClientRect().height + "px" : ""; // what lies below must not move
      const tick = node.querySelector(".tick input");
      if (tick) tick.checked = old.querySelector(".tick input")?.checked ?? false;
      if (node.querySelector("[data-kept]")) redraw(old, node);
      else old.replaceWith(node);
      const now = cardOf(id);
      now.style.minHeight = height;
      if (typed) now.append(paragraph("kept", "You had typed, and it was not sent: " + typed));
      const next = now.querySelector("[autofocus]"); // what the server says: the problems, or a field that was added
      if (next) next.focus();
      else if (hadFocus) now.focus({ preventScroll: true });
    }
    countSection(cardOf(id).closest("section"));
    count(parseInt(found.getElementById("count").textContent, 10));
    return true;
  }

  function typedIn(card) {
    const fields = [...card.querySelectorAll("textarea, input[type=text]")];
    return fields.filter((each) => each.value !== each.defaultValue && each.value.trim()).map((each) => each.value.trim()).join("; ");
  }

  function paragraph(className, text) {
    const made = document.createElement("p");
    made.className = className;
    made.dir = "auto";
    made.textContent = text;
    return made;
  }

  async function changed(approval) {
    const old = cardOf(approval.id);
    const isPending = approval.status === "pending";
    if (old && isPending && old.dataset.tone === "pending") { tellOthers(approval); return; }
    if (old && !isPending && old.dataset.tone !== "pending") return;
    if (!old && (page !== "inbox" || !isPending || isFull())) { recount(); return; }
    const asRow = old ? isFolded(old) : page === "inbox" && live().length >= Number(cards.dataset.open);
    const press = sending.get(approval.id);
    if (press?.isSent) await Promise.race([press.over, new Promise((done) => setTimeout(done, SLOW))]); // its answer says it
    if (old && cardOf(approval.id)?.dataset.tone !== "pending") return;
    const [found, response] = await load("/approvals/" + approval.id + (asRow ? "?folded" : ""), { headers: hasFacts(approval.id) });
    if (!response.ok) throw new Error(response.statusText); // it comes again, with the stream
    if (old && found.getElementById("card-" + approval.id)?.dataset.tone === "pending") return;
    put(approval.id, found);
    const card = cardOf(approval.id);
    if (card && isPending) announce("New: " + card.getAttribute("aria-label"));
    else if (card) announce(card.getAttribute("aria-label") + ": " + card.querySelector(".ending").textContent.trim());
  }

  // Votes, and who is on it, are told in the room that an open card has, and over the end of a row: both keep their
  // height, and a card what was typed into it.
  function tellOthers(approval) {
    const digests = [...new Set((approval.votes ?? []).map((each) => each.digest))];
    const said = digests.map((digest) => {
      const same = approval.votes.filter((each) => each.digest === digest);
      const other = digest === approval.digest ? "" : " (not for this call as it was asked)";
      return `${same.length} of ${same[0].quorum}: ${same.map((each) => each.by).join(", ")}${other}`;
    });
    const onIt = approval.acknowledged;
    const until = onIt && new Date(onIt.until);
    if (until > Date.now() + ahead) said.push(`${onIt.by} is on it, until ${clockTime.format(until)}`);
    const card = cardOf(approval.id);
    const before = card.querySelector(".said");
    if (!said.length) {
      if (before?.textContent.includes(" is on it")) before.textContent = ""; // not any more: the steps go on
      return;
    }
    const own = card.querySelector(".sent")?.dataset.own ?? "";
    tell(approval.id, [own, said.join("; ")].join(" ").trim(), "sent", own);
    if (!isFolded(card)) return;
    const line = card.querySelector(".line .expires") ?? card.querySelector(".line").appendChild(document.createElement("b"));
    line.className = "expires";
    const words = before ?? line.appendChild(document.createElement("span"));
    words.className = "said";
    words.textContent = said.join("; ").replace(/, until .*/, ""); // a row has little room
  }

  // Open a folded card, or fold an open one. What a card shows is asked of the server when it is opened.
  async function toggle(card) {
    const id = card.dataset.card;
    if (isFolded(card) && !card.querySelector(".body")) {
      try {
        const [found, response] = await load("/approvals/" + id);
        if (!response.ok || !put(id, found)) throw new Error(response.statusText);
      } catch { announce("Not opened: no answer came. Try again."); return; }
    } else {
      card.classList.toggle("folded");
      card.style.minHeight = "";
    }
    const link = cardOf(id).querySelector("[data-fold]");
    link.setAttribute("aria-expanded", String(!isFolded(cardOf(id))));
    if (!cardOf(id).matches(":focus")) link.focus({ preventScroll: true });
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("[data-fold]");
    if (!link || !cards || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    toggle(link.closest("[data-card]"));
  });

  const isFull = () => live().length >= Number(cards.dataset.most);

  let recounting = null;
  function recount() {
    recounting ??= setTimeout(async () => {
      recounting = null;
      try { count(parseInt((await load("/count"))[0].getElementById("count").textContent, 10)); }
      catch { /* the stream says that the connection is lost */ }
    }, 500);
  }

  // -- forms ---------------------------------------------------------------------------------------------------------

  // Whether the server has drawn a page, and not something on the way to it.
  const isOurs = (found) => "now" in found.body.dataset;

  // Send a form, and return the page that answers. Raises SignedOut, or another error if it is not known what became of it.
  async function send(form, button, tell, more = []) {
    const body = new URLSearchParams(new FormData(form, button));
    for (const name of more) body.set(name, "");
    body.set("csrf", csrf());
    const buttons = form.querySelectorAll("button");
    for (const each of buttons) each.setAttribute("aria-disabled", "true"); // `disabled` would lose the focus
    const slow = setTimeout(() => tell("Sending…"), SLOW);
    try {
      const [found, response] = await load(form.action, { method: "POST", body, headers: hasFacts(form.closest("[data-card]")?.dataset.card) });
      if (response.status >= 500 || !isOurs(found)) throw new Error(response.statusText); // of a proxy: it knows nothing
      return [found, response];
    } finally {
      clearTimeout(slow);
      for (const each of buttons) each.removeAttribute("aria-disabled");
    }
  }

  // Say something in the room that an open card has for it. `own`: what the person's press became, which others' news keep.
  function tell(id, text, className = "sent", own = "") {
    const line = cardOf(id)?.querySelector(".sent");
    if (!line) return;
    line.className = className;
    line.textContent = text;
    line.dataset.own = own;
  }

  const sending = new Map(); // approval -> the press that is being sent, or whose result is not known
  async function decide(form, button) {
    const id = form.closest("[data-card]").dataset.card;
    if (sending.get(id)?.isSent) return;
    if (opened(form, button)) return;
    const press = { isSent: true };
    press.over = new Promise((done) => { press.end = done; });
    sending.set(id, press);
    tell(id, "");
    try {
      const [found, response] = await send(form, button, (text) => tell(id, text));
      const why = found.querySelector("main p")?.textContent ?? response.statusText;
      if (!put(id, found, !response.ok)) tell(id, `Not counted: ${why}`, "sent problem");
      sending.delete(id);
    } catch (error) {
      press.isSent = false;
      if (error instanceof SignedOut) tell(id, "Not sent: you are signed out. Nothing was decided.", "sent problem");
      else await findOut(id, press);
    } finally {
      press.end();
    }
  }

  // Ask what became of a press, until the server says it, or the person presses again.
  async function findOut(id, press) {
    tell(id, "No answer came. It is not known whether it was counted; asking the server.", "sent problem doubt");
    while (sending.get(id) === press && cardOf(id)?.dataset.tone === "pending") {
      try {
        const [found, response] = await load("/approvals/" + id, { headers: hasFacts(id) });
        const now = found.getElementById("card-" + id)?.dataset.tone;
        if (response.ok && now && now !== "pending") {
          put(id, found, false);
          announce(cardOf(id).getAttribute("aria-label") + ": " + cardOf(id).querySelector(".ending").textContent.trim());
        } else if (response.ok && now) {
          tell(id, "No answer came. The server says that it still waits: press again, it counts once.", "sent problem doubt");
        } else if (response.status !== 404) {
          throw new Error(response.statusText);
        }
        break;
      } catch (error) {
        if (error instanceof SignedOut) return;
        await new Promise((done) => setTimeout(done, 2000));
      }
    }
    if (sending.get(id) === press) sending.delete(id);
  }

  // Open what is folded of a request that is about to be approved. Return whether there was any: then nothing is sent yet.
  function opened(form, button) {
    const card = form.closest("[data-card]");
    const decision = button?.name === "decision" ? button.value : form.elements.decision?.value;
    const folds = decision === "approve" ? [...card.querySelectorAll("[data-must-open]:not([open])")] : [];
    for (const fold of folds) fold.open = true;
    if (!folds.length) return false;
    const words = "Nothing is decided yet: a part of this was folded. Read it, then press again.";
    tell(card.dataset.card, words, "sent problem");
    folds[0].scrollIntoView({ block: "start" });
    return true;
  }

  // A message has an id, which it keeps until an answer came: the server takes the same message once.
  let message = { id: "", text: null };
  async function say(form, button) {
    if (message.isSent) return;
    const text = $("text").value;
    if (message.text !== text) {
      const id = [...crypto.getRandomValues(new Uint8Array(16))].map((each) => each.toString(16).padStart(2, "0")).join("");
      message = { id, text };
    }
    form.elements.message.value = message.id;
    message.isSent = true;
    try {
      const [found, response] = await send(form, button, (said) => { $("reply").textContent = said; });
      $("reply").textContent = found.getElementById("reply")?.textContent ?? found.querySelector("main p")?.textContent;
      if (response.ok && $("text").value === text) $("text").value = "";
      message = { id: "", text: null };
      refresh(found);
    } catch (error) {
      message.isSent = false;
      $("reply").textContent = error instanceof SignedOut ? "Not sent: you are signed out."
        : "No answer came. It is not known whether it arrived. Send it again: it arrives once.";
      refreshSoon(0);
    }
  }

  // Decide several calls at once. If no answer comes, the page asks what became of each, and shows that.
  let isBatchSent = false;
  async function decideTogether(form, button) {
    if (isBatchSent) return;
    isBatchSent = true;
    const line = form.querySelector(".sent");
    const told = (text, className = "sent") => { line.className = className; line.textContent = text; };
    try {
      const [found, response] = await send(form, button, told);
      if (response.ok) showMain(found);
      else told(`Not counted: ${found.querySelector("main p")?.textContent ?? response.statusText}`, "sent problem");
    } catch (error) {
      if (error instanceof SignedOut) told("Not sent: you are signed out. Nothing was decided.", "sent problem");
      else await findOutTogether(form, told);
    }
    isBatchSent = false;
  }

  // Without a button the form decides nothing: the server says what was decided, and asks about what still waits.
  async function findOutTogether(form, told) {
    const words = "No answer came. It is not known what was counted; asking the server.";
    told(words, "sent problem doubt");
    for (;;) {
      try {
        const [found, response] = await send(form, null, () => {});
        if (!response.ok) throw new Error(response.statusText);
        showMain(found);
        $("main").prepend(paragraph("problem", "No answer came to your press. This is what the server says: what still waits counts once."));
        return;
      } catch (error) {
        if (error instanceof SignedOut) return;
        await new Promise((done) => setTimeout(done, 2000));
      }
    }
  }

  // Say that the person is on what the page shows, or wants to hear of it later. If no answer comes, the page asks what
  // the server knows of it: to say it again is to say it once.
  const hushing = new Set();
  async function hush(form, button) {
    if (hushing.has(form)) return;
    hushing.add(form);
    const card = form.closest("[data-card]");
    const ids = card ? [card.dataset.card] : [...live()].map((each) => each.dataset.card);
    const told = (text, className = "sent") => {
      if (card) tell(ids[0], text, className, text);
      else [form.querySelector(".sent").className, form.querySelector(".sent").textContent] = [className, text];
    };
    told("");
    try {
      const [found, response] = await send(form, button, told, ids.map((id) => "one." + id));
      const text = found.querySelector("main p")?.textContent ?? response.statusText;
      if (response.ok) told(text);
      else told("Not counted: " + text, "sent problem");
      const drawer = response.ok && form.querySelector("details[open]");
      if (drawer?.contains(document.activeElement)) drawer.querySelector("summary").focus();
      if (drawer) drawer.open = false;
    } catch (error) {
      if (error instanceof SignedOut) told("Not sent: you are signed out.", "sent problem");
      else await findOutHushed(ids, told);
    }
    hushing.delete(form);
  }

  async function findOutHushed(ids, told) {
    told("No answer came. It is not known whether it was counted; asking the server.", "sent problem doubt");
    for (;;) {
      try {
        const [found, response] = await load("/approvals/" + ids[0] + "?folded");
        if (!isOurs(found) || (!response.ok && response.status !== 404)) throw new Error(response.statusText);
        const said = [...found.querySelectorAll(".said")].map((each) => each.textContent);
        told(`No answer came. The server says: ${said.join("; ") || "nothing of it"}. Press again if you miss yours.`, "sent problem doubt");
        return;
      } catch (error) {
        if (error instanceof SignedOut) return;
        await new Promise((done) => setTimeout(done, 2000));
      }
    }
  }

  function showMain(found) {
    $("main").replaceChildren(...found.getElementById("main").childNodes);
    tellTimes();
    count(parseInt(found.getElementById("count").textContent, 10));
    $("main").focus();
    scrollTo(0, 0);
    announce($("main").querySelector("h1").textContent);
  }

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post" || form.classList.contains("login")) return;
    if (form.id === "batch") {
      event.preventDefault();
      decideTogether(form, event.submitter);
      return;
    }
    if ("hush" in form.dataset) {
      event.preventDefault();
      hush(form, event.submitter);
    } else if (form.closest("[data-card]")) {
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
    for (const section of cards.querySelectorAll("section")) if (!section.querySelector("[data-card]")) section.remove();
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
      if (next) { event.preventDefault(); next.focus({ preventScroll: true }); next.scrollIntoView({ block: "nearest" }); }
      return;
    }
    if (card !== active) return; // a key decides the card that has the focus, and no other
    if (event.key === "Enter" && card.querySelector("[data-fold]")) {
      event.preventDefault();
      toggle(card);
      return;
    }
    if (isFolded(card)) {
      if (!/^[ade1-9yn]$/.test(event.key)) return;
      toggle(card);
      announce("Nothing is decided yet: this is the whole request. Press again.");
      return;
    }
    const target = card.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (!target) return;
    event.preventDefault();
    if (target.matches("details, form")) {
      target.open = true;
      target.querySelector("textarea, select, input:not([type=hidden])").focus();
      return;
    }
    const isReady = isOnScreen(target);
    if (isReady) target.click();
    for (const fold of card.querySelectorAll("[data-must-open]")) fold.open = true;
    if (isReady && isOnScreen(target)) return;
    target.scrollIntoView({ block: "end" });
    announce("Nothing is decided yet: read to the end of the card, then press again.");
  });

  function isOnScreen(element) {
    const box = element.getBoundingClientRect();
    return box.top >= -1 && box.bottom <= innerHeight + 1; // scrolling rounds
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
