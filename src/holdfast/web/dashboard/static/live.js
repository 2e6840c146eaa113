// Keeps the parts of a page up to date: the server says that something happened, and the page is read again, at most
// once a second and less often where that takes the server long. Only elements with `data-part` are changed.
import { morph } from "./morph.js";

const SLOWEST = 15000;
const SHARE = 200; // of the time, one part for making the page
const WITHOUT_NEWS = 10000;

const frame = () => document.querySelector("[data-stream]");
const light = () => document.getElementById("live");

let paused = false;
let reading = false;
let again = false;
let readAt = 0;
let cost = 0;
let away = null;
let source = null;
let heardAt = Date.now();
let over = false;

export function keepLive() {
  if (!frame()) return;
  listen();
  setInterval(watch, 1000);
  document.addEventListener("visibilitychange", () => !document.hidden && wanted());
}

export function togglePause() {
  paused = !paused;
  say();
  if (!paused) wanted();
}

function listen() {
  source = new EventSource(frame().dataset.stream);
  source.onmessage = (message) => heard(JSON.parse(message.data));
  source.onerror = () => {
    if (over) return source.close();
    gone("The connection to the server is lost.", "What you see is from before; the page tries to connect again.");
    // A response that is no stream (a login that is over, a server that starts) ends it for good: ask anew.
    if (source.readyState === EventSource.CLOSED) {
      wanted();
      setTimeout(() => over || listen(), 3000);
    }
  };
}

function heard(said) {
  heardAt = Date.now();
  if (said.version !== frame().dataset.version) document.getElementById("deployed").hidden = false;
  if (said.trouble) gone("The store cannot be reached.", said.trouble);
  else {
    const back = away;
    away = null;
    say();
    if (said.news || back) wanted();
  }
}

function watch() {
  if (document.querySelector("[data-soon]")) wanted();
  else if (Date.now() - readAt > WITHOUT_NEWS && !document.hidden) wanted();
  if (Date.now() - heardAt > 45000 && !away) gone("The server is silent.", "The page tries to connect again.");
}

function wanted() {
  if (paused || over || document.hidden || "still" in frame().dataset) return;
  if (reading) {
    again = true;
    return;
  }
  const pause = Math.min(SLOWEST, Math.max(1000, cost * SHARE));
  reading = true;
  setTimeout(read, Math.max(0, readAt + pause - Date.now()));
}

async function read() {
  again = false;
  try {
    if (paused || document.hidden) return;
    const answer = await fetch(location.href, { headers: { "X-Holdfast-Part": "1" }, credentials: "same-origin" });
    cost = Number(/page;dur=([0-9.]+)/.exec(answer.headers.get("Server-Timing"))?.[1] ?? 0);
    if (answer.status === 401 || (answer.redirected && new URL(answer.url).pathname.endsWith("/login"))) {
      over = true;
      gone("The login is over.", "Load the page again to log in.");
    } else if (answer.status === 503) gone("The store cannot be reached.", "The page tries again by itself.");
    else if (answer.ok) {
      show(new DOMParser().parseFromString(await answer.text(), "text/html"));
    }
  } catch {
    gone("The server cannot be reached.", "The page tries again by itself.");
  } finally {
    readAt = Date.now();
    reading = false;
    if (again) wanted();
  }
}

function show(page) {
  for (const part of document.querySelectorAll("[data-part]")) {
    const fresh = page.getElementById(part.id);
    if (fresh && !busy(part)) morph(part, fresh);
  }
  const soon = document.querySelector("[data-soon]");
  if (soon && !page.querySelector("[data-soon]")) soon.removeAttribute("data-soon");
  document.dispatchEvent(new Event("holdfast:updated"));
}

// A part in which someone is choosing, typing or about to confirm is left alone until they are done.
function busy(part) {
  if (part.querySelector("details.act[open]")) return true;
  const focused = document.activeElement;
  if (focused && part.contains(focused) && focused.matches("input:not([type=checkbox]), textarea, select")) return true;
  const selected = getSelection();
  return Boolean(selected && !selected.isCollapsed && part.contains(selected.anchorNode));
}

function gone(title, text) {
  away = title;
  const bar = document.getElementById("away");
  bar.querySelector("[data-away-title]").textContent = title;
  bar.querySelector("[data-away-text]").textContent = text;
  bar.hidden = false;
  say();
}

function say() {
  const sign = light();
  sign.dataset.live = away ? "away" : paused ? "off" : "on";
  sign.textContent = away ? "not up to date" : paused ? "paused" : "live";
  if (!away) document.getElementById("away").hidden = true;
}
