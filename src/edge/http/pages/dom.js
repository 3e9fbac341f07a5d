// Small helpers for pages without a framework. Texts come from words.js.

export const byId = (id) => document.getElementById(id);

/** An element with properties and children. */
export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** Sets a text only if it differs, so that nothing is drawn or announced twice. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** What the browser keeps for this page, if it keeps anything: it may be set not to. */
export function recall(storage, key) {
  try {
    return globalThis[storage].getItem(key);
  } catch {
    return null;
  }
}

export function keep(storage, key, value) {
  try {
    globalThis[storage].setItem(key, value);
  } catch {
    // Then it is chosen anew the next time.
  }
}

/**
 * Makes a list show these items in their order, and keeps the elements of items that stay, so that a button that has
 * the focus keeps it; the focus of one that goes is the list's. `show` makes the content of a new element.
 */
export function showList(list, items, keyOf, show) {
  const old = new Map([...list.children].map((element) => [element.dataset.key, element]));
  let before = list.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let element = old.get(key);
    old.delete(key);
    if (!element) {
      element = show(item);
      element.dataset.key = key;
    }
    if (element === before) before = before.nextElementSibling;
    else list.insertBefore(element, before);
  }
  const goes = [...old.values()];
  if (goes.some((element) => element.contains(document.activeElement))) list.focus();
  for (const element of goes) element.remove();
}

/** Runs `act` at most once in `ms`, and once more later if it was wanted meanwhile. */
export function throttle(ms, act) {
  let timer = null;
  let again = false;
  const run = () => {
    timer = setTimeout(() => {
      timer = null;
      if (again) run();
    }, ms());
    again = false;
    act();
  };
  return () => {
    if (timer === null) run();
    else again = true;
  };
}

/** Shows the one of these sections that is meant. */
export function showOnly(sections, shown) {
  for (const section of sections) section.hidden = section !== shown;
}
