// Everything here is an addition: pages and their forms work without it.
import { keepLive } from "./live.js";
import { followPointer } from "./charts.js";
import { listenForKeys } from "./keys.js";
import { followPicks } from "./picks.js";
import { keepTimes } from "./times.js";

keepTimes();
followPointer();
followPicks();
listenForKeys();
keepLive();

// On a telephone the menu is one line that scrolls: it begins where this page is.
const here = document.querySelector(".menu a[aria-current]");
if (here) here.closest(".menu").scrollLeft = here.offsetLeft - (here.closest(".menu").clientWidth - here.offsetWidth) / 2;

// A panel of an action closes when something else is clicked, or with Escape.
document.addEventListener("click", (event) => {
  for (const open of document.querySelectorAll("details.act[open]")) {
    if (!open.contains(event.target)) open.open = false;
  }
});

// A form that was sent is not sent twice by a second click.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post" || event.defaultPrevented) return;
  setTimeout(() => form.querySelectorAll("button").forEach((button) => (button.disabled = true)), 0);
});
addEventListener("pageshow", () => document.querySelectorAll("button:disabled").forEach((button) => (button.disabled = false)));
