// The script of the dashboard. Every page works without it; with it pages stay up to date, and times are told
// relative to now and in the chosen zone.
"use strict";

const root = document.body.dataset.root;
const LOOK_MS = 5000;

// ── Bringing a page up to date, in place ────────────────────────────────────────────────────────────────────────────

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") || node.id || "" : "";
}

function titleOf(details) {
  return details.firstElementChild ? details.firstElementChild.textContent : "";
}

// Whether an element of the page may go on as an element of the new page. What something is about is never guessed from
// its position: a row is its key, a box and a button are their values, a menu is what it is called.
function isSame(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || keyOf(old) !== keyOf(fresh)) return false;
  if (old.nodeName === "INPUT") {
    const byValue = old.type === "checkbox" || old.type === "radio";
    const valueFits = !byValue || old.getAttribute("value") === fresh.getAttribute("value");
    return old.type === fresh.type && old.name === fresh.name && valueFits;
  }
  if (old.nodeName === "BUTTON") return old.name === fresh.name && old.value === fresh.value;
  if (old.nodeName === "DIV") return old.className === fresh.className;
  if (old.nodeName === "DETAILS") return !!keyOf(old) || titleOf(old) === titleOf(fresh);
  if (old.nodeName === "FORM") {
    const about = (form) => Array.from(form.querySelectorAll("input[type=hidden][name=on]"), (on) => on.value).join("\n");
    return old.getAttribute("action") === fresh.getAttribute("action") && about(old) === about(fresh);
  }
  return true;
}

function morph(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  for (const { name } of Array.from(old.attributes)) {
    if (!fresh.hasAttribute(name) && name !== "open" && name !== "disabled" && name !== "class") old.removeAttribute(name);
  }
  for (const { name, value } of Array.from(fresh.attributes)) {
    if (name === "open" || (name === "title" && old.nodeName === "TIME")) continue;
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const keyed = new Map();
  const loose = [];
  for (const child of old.childNodes) keyOf(child) ? keyed.set(keyOf(child), child) : loose.push(child);
  const kept = new Set();
  const wanted = Array.from(fresh.childNodes, (child) => {
    let match = keyed.get(keyOf(child));
    if (!keyOf(child)) {
      // A text fits only in its place: if it were looked for, the elements before it would be left behind.
      const near = child.nodeType === Node.ELEMENT_NODE ? loose : loose.slice(0, 1);
      const place = near.findIndex((each) => isSame(each, child));
      match = place < 0 ? undefined : loose[place];
      loose.splice(0, place + 1);
    }
    if (match === undefined || kept.has(match) || !isSame(match, child)) {
      const made = document.importNode(child, true);
      if (made.nodeName === "TR") made.classList.add("fresh");
      return made;
    }
    kept.add(match);
    morph(match, child);
    return match;
  });
  for (const child of Array.from(old.childNodes)) if (!kept.has(child)) child.remove();
  let at = old.firstChild;
  for (const child of wanted) {
    if (child === at) at = at.nextSibling;
    else old.insertBefore(child, at);
  }
}

let isLooking = false;
let isOld = false;

async function refresh() {
  if (isLooking) {
    isOld = true;
    return;
  }
  isLooking = true;
  try {
    do {
      isOld = false;
      const answer = await fetch(location.href, { headers: { "Holdfast-Fragment": "main" }, cache: "no-store" });
      if (answer.status === 401) return lose("log in again", true);
      if (answer.status === 503) return tell("the store does not answer", false);
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const focused = document.activeElement;
      document.title = page.title;
      morph(document.getElementById("main"), page.getElementById("main"));
      if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
      dress();
      tell("live", true);
    } while (isOld && !document.hidden);
  } catch {
    tell("not reached", false);
  } finally {
    isLooking = false;
  }
}

// ── News ────────────────────────────────────────────────────────────────────────────────────────────────────────────

const live = document.getElementById("live");
let source = null;
let timer = 0;
let isLost = false;

function tell(text, on) {
  if (live.textContent !== text) live.textContent = text;
  live.classList.toggle("on", on);
}

function lose(text) {
  isLost = true;
  rest();
  tell(text, false);
}

function rest() {
  if (source) source.close();
  source = null;
  clearInterval(timer);
}

function listen() {
  rest();
  const { watch, live: way } = document.body.dataset;
  if (!watch || isLost) return tell("", false);
  if (document.hidden) return;
  if (way === "poll") {
    timer = setInterval(refresh, LOOK_MS);
    return tell("live", true);
  }
  source = new EventSource(`${root}/events?watch=${encodeURIComponent(watch)}`);
  source.addEventListener("open", () => tell("live", true));
  source.addEventListener("stale", refresh);
  source.addEventListener("again", listen);
  source.addEventListener("over", () => lose("log in again"));
  source.addEventListener("error", () => {
    tell("not live", false);
    if (source && source.readyState === EventSource.CLOSED) timer = setInterval(refresh, LOOK_MS);
  });
}

document.addEventListener("visibilitychange", () => {
  listen();
  if (!document.hidden && source) refresh();
});
addEventListener("pagehide", rest);
addEventListener("pageshow", (event) => {
  for (const form of document.forms) delete form.dataset.sent;
  for (const button of document.querySelectorAll("button[disabled]")) button.disabled = false;
  if (event.persisted) listen();
});

// ── Times ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const ZONE = "holdfast-zone";
const zone = document.getElementById("zone");
const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

function isLocal() {
  return localStorage.getItem(ZONE) === "local";
}

function pad(number, digits = 2) {
  return String(number).padStart(digits, "0");
}

function exact(time) {
  if (!isLocal()) return `${time.toISOString().replace("T", " ").slice(0, 23)} UTC`;
  const ahead = -time.getTimezoneOffset();
  const offset = `${ahead < 0 ? "−" : "+"}${pad(Math.floor(Math.abs(ahead) / 60))}:${pad(Math.abs(ahead) % 60)}`;
  const day = `${time.getFullYear()}-${pad(time.getMonth() + 1)}-${pad(time.getDate())}`;
  const hour = `${pad(time.getHours())}:${pad(time.getMinutes())}:${pad(time.getSeconds())}`;
  return `${day} ${hour}.${pad(time.getMilliseconds(), 3)} ${offset}`;
}

function ago(time) {
  const behind = (Date.now() - time.getTime()) / 1000;
  const [unit, seconds] = UNITS.find((each) => Math.abs(behind) >= each[1]) || ["", 0];
  if (!unit) return "now";
  const told = `${Math.floor(Math.abs(behind) / seconds)} ${unit}`;
  return behind > 0 ? `${told} ago` : `in ${told}`;
}

function tellTimes() {
  for (const each of document.querySelectorAll("time[datetime]")) {
    const time = new Date(each.getAttribute("datetime"));
    const told = exact(time);
    if (each.title !== told) each.title = told;
    const text = "exact" in each.dataset ? told : ago(time);
    if (each.textContent !== text) each.textContent = text;
  }
  zone.textContent = isLocal() ? "local time" : "UTC";
}

zone.hidden = false;
zone.addEventListener("click", () => {
  localStorage.setItem(ZONE, isLocal() ? "utc" : "local");
  tellTimes();
});
setInterval(() => document.hidden || tellTimes(), 5000);

// ── Forms ───────────────────────────────────────────────────────────────────────────────────────────────────────────

function countTicked() {
  for (const form of document.querySelectorAll(".select-form")) {
    const boxes = Array.from(form.querySelectorAll("input[name=on]"));
    const ticked = boxes.filter((box) => box.checked).length;
    const label = form.querySelector(".selected");
    if (label) label.textContent = ticked ? `With the ${ticked} selected:` : "With selected:";
    const all = form.querySelector("input.all");
    if (!all) continue;
    all.hidden = false;
    all.checked = ticked > 0 && ticked === boxes.length;
    all.indeterminate = ticked > 0 && ticked < boxes.length;
  }
}

document.addEventListener("change", (event) => {
  if (event.target.matches("input.all")) {
    for (const box of event.target.form.querySelectorAll("input[name=on]")) box.checked = event.target.checked;
  }
  countTicked();
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  if ("sent" in form.dataset) return event.preventDefault(); // a second click is none
  form.dataset.sent = "";
  setTimeout(() => form.querySelectorAll("button").forEach((button) => (button.disabled = true)));
});

// ── Keys, menus, names ──────────────────────────────────────────────────────────────────────────────────────────────

document.addEventListener("keydown", (event) => {
  const open = document.querySelector("details.more[open]");
  if (event.key === "Escape" && open) {
    open.open = false;
    open.querySelector("summary").focus();
  }
  const isTyping = event.target.matches("input, select, textarea");
  const first = document.querySelector(".filters input");
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && first) {
    event.preventDefault();
    first.focus();
  }
});

document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.more[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

document.addEventListener("copy", (event) => {
  const chosen = document.getSelection();
  const at = chosen.anchorNode && chosen.anchorNode.parentElement;
  const name = at && at.closest(".id[title]");
  if (!name || !name.contains(chosen.focusNode) || !chosen.toString().includes("…")) return;
  event.clipboardData.setData("text/plain", name.title);
  event.preventDefault();
});

function dress() {
  tellTimes();
  countTicked();
}

dress();
listen();
