// Says how many jobs of a list are selected, and selects all of a page at once.

const boxes = () => [...document.querySelectorAll('input[name="job"][form="bulk"]')];

export function followPicks() {
  if (!document.getElementById("bulk")) return;
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-pick-all]")) boxes().forEach((box) => (box.checked = event.target.checked));
    if (event.target.matches('input[name="job"], [data-pick-all], [data-all]')) count();
  });
  document.addEventListener("holdfast:updated", count);
  count();
}

function count() {
  const all = document.querySelector("[data-all]");
  const picked = boxes().filter((box) => box.checked);
  boxes().forEach((box) => box.closest("tr").classList.toggle("selected", box.checked));
  const text = all?.checked ? "All that match are taken:" : picked.length ? `${picked.length} selected:` : "Select jobs, or take all that match:";
  document.getElementById("picked").textContent = text;
  document.querySelectorAll("[data-picked]").forEach((word) => (word.textContent = all?.checked ? "all" : "selected"));
  document.querySelectorAll("#bulk button").forEach((button) => (button.disabled = !all?.checked && !picked.length));
}
