// Keyboard shortcuts, which `?` shows. They keep out of the way while someone types.
import { togglePause } from "./live.js";

let first = "";
let row = -1;

export function listenForKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return leave();
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    if (press(event.key)) event.preventDefault();
  });
  document.querySelector("[data-help]")?.addEventListener("click", (event) => {
    event.preventDefault();
    help();
  });
}

function press(key) {
  const keys = first + key;
  first = "";
  const link = document.querySelector(`a[data-keys="${CSS.escape(keys)}"]`);
  if (keys.length === 2 && link) {
    location.href = link.href;
    return true;
  }
  if (key === "g") {
    first = "g";
    setTimeout(() => (first = ""), 1500);
    return true;
  }
  if (key === "?") return help();
  if (key === "/") return search();
  if (key === "p") return togglePause() ?? true;
  if (key === "j" || key === "k") return move(key === "j" ? 1 : -1);
  if (key === "x") return pick();
  return false;
}

function typing(element) {
  return element.matches?.("input:not([type=checkbox]), textarea, select") || document.getElementById("keys").open;
}

function help() {
  document.getElementById("keys").showModal();
  return true;
}

function search() {
  const field = document.querySelector("[data-search]");
  if (field) field.focus();
  else location.href = document.querySelector('a[data-keys="gj"]').href;
  return true;
}

function move(step) {
  const rows = [...document.querySelectorAll("tr[data-row]")];
  if (!rows.length) return false;
  row = Math.min(rows.length - 1, Math.max(0, row + step));
  rows[row].querySelector("a")?.focus();
  return true;
}

function pick() {
  const box = document.activeElement?.closest("tr")?.querySelector('input[name="job"]');
  if (!box) return false;
  box.click();
  return true;
}

function leave() {
  const open = document.querySelector("details.act[open]");
  if (open) {
    open.open = false;
    open.querySelector("summary").focus();
  } else if (typing(document.activeElement)) document.activeElement.blur();
}
