// Keeps "3 s ago" true between two updates. The server's clock counts: the difference is known from its last answer.

export function keepTimes() {
  setInterval(() => !document.hidden && update(), 1000);
}

function update() {
  for (const time of document.querySelectorAll("time[data-ago]")) {
    const text = relative(Date.parse(time.dateTime) - Date.now());
    if (time.textContent !== text) time.textContent = text;
  }
}

function relative(gap) {
  if (Math.abs(gap) < 1000) return "now";
  const text = span(Math.floor(Math.abs(gap) / 1000));
  return gap < 0 ? `${text} ago` : `in ${text}`;
}

function span(seconds) {
  for (const [size, unit, below, name] of [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]]) {
    if (seconds >= size) {
      const rest = Math.floor((seconds % size) / below);
      return `${Math.floor(seconds / size)} ${unit}${rest ? ` ${rest} ${name}` : ""}`;
    }
  }
  return `${seconds} s`;
}
