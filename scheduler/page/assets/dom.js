// Makes and updates elements. What people chose (names, programs, reasons) only ever becomes text:
// nothing here, nor elsewhere in the page, parses a string as HTML.

export const byId = (id) => document.getElementById(id);

// An element with attributes and children: elements or texts.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) put(element, name, value);
  element.append(...children);
  return element;
}

// Sets an attribute if it is not so yet; takes it away for null and false.
export function put(element, name, value) {
  if (value === null || value === undefined || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
    return;
  }
  const text = value === true ? "" : String(value);
  if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}

export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Makes the parent's children those of `items`, in their order, and keeps the elements of items
// that stay, so that focus, selection and scrolling stay as well. `keys` are texts.
export function sync(parent, items, keyOf, create, update) {
  const had = parent.syncedChildren ?? new Map();
  const has = new Map();
  let next = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    const element = had.get(key) ?? create(item);
    had.delete(key);
    has.set(key, element);
    update(element, item);
    if (element === next) {
      next = next.nextElementSibling;
    } else {
      parent.insertBefore(element, next);
    }
  }
  for (const element of had.values()) element.remove();
  parent.syncedChildren = has;
}

export const unseen = (text) => make("span", {class: "unseen"}, text);
