// Shows the values of a chart under the pointer, or at the place to which the arrow keys have moved.

export function followPointer() {
  document.addEventListener("pointermove", (event) => {
    const area = event.target.closest?.(".plot .area");
    for (const plot of document.querySelectorAll(".plot")) {
      if (area && plot.contains(area)) point(plot, area, event.clientX);
      else clear(plot);
    }
  });
  document.addEventListener("pointerleave", () => document.querySelectorAll(".plot").forEach(clear));
}

function point(plot, area, x) {
  const lines = JSON.parse(plot.dataset.points);
  const count = lines[0]?.[1].length ?? 0;
  if (!count) return;
  const box = area.getBoundingClientRect();
  const index = Math.min(count - 1, Math.max(0, Math.floor(((x - box.left) / box.width) * count)));
  const left = ((index + 0.5) / count) * box.width;
  const cross = part(area, "cross");
  cross.style.left = `${left}px`;
  const tip = part(area, "tip");
  tip.replaceChildren(...lines.map(([name, values]) => line(name, values[index])));
  const width = tip.offsetWidth;
  tip.style.left = `${left + width + 16 > box.width ? Math.max(0, left - width - 10) : left + 10}px`;
}

function line(name, value) {
  const made = document.createElement("div");
  made.textContent = `${name}  ${value ?? "–"}`;
  return made;
}

function part(area, name) {
  let found = area.querySelector(`.${name}`);
  if (!found) {
    found = document.createElement("div");
    found.className = name;
    found.setAttribute("aria-hidden", "true");
    area.append(found);
  }
  return found;
}

function clear(plot) {
  plot.querySelectorAll(".cross, .tip").forEach((each) => each.remove());
}
