// Makes an element like another one with as few changes as it takes, so that focus, selection, checked boxes and open
// details stay. Children with an id or `data-key` are known by it, others by their place.

export function morph(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  attributes(old, fresh);
  children(old, fresh);
}

function attributes(old, fresh) {
  for (const { name, value } of [...fresh.attributes]) {
    if (name === "open" && old.localName === "details") continue;
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (name === "open" || fresh.hasAttribute(name)) continue;
    old.removeAttribute(name);
  }
}

function children(old, fresh) {
  const keyed = new Map();
  for (const child of old.children) if (key(child)) keyed.set(key(child), child);
  let at = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const known = key(wanted) && keyed.get(key(wanted));
    if (known && same(known, wanted)) {
      keyed.delete(key(wanted));
      if (known === at) at = at.nextSibling;
      else old.insertBefore(known, at);
      morph(known, wanted);
    } else if (at && !key(at) && !key(wanted) && same(at, wanted)) {
      const next = at.nextSibling;
      if (at.nodeType === Node.ELEMENT_NODE) morph(at, wanted);
      else if (at.nodeValue !== wanted.nodeValue) at.nodeValue = wanted.nodeValue;
      at = next;
    } else {
      old.insertBefore(document.importNode(wanted, true), at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function key(node) {
  return node.nodeType === Node.ELEMENT_NODE && (node.id || node.dataset.key);
}

function same(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName;
}
