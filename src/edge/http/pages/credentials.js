// Who looks: from the fragment of the address, which no server sees, or from a form. A token is taken out of the
// address bar at once and kept in this page's memory only.

import { expiryOf } from "/rollcall.js";

/** Whether this gateway believes what clients say of themselves. */
export const authOff = document.documentElement.dataset.auth === "off";

/** Whether the HTTP API is on this port. */
export const hasApi = document.documentElement.dataset.api === "here";

const KNOWN = ["token", "user", "role", "live", "join", "simulate", "way"];

/** What a token says of its bearer; null if it is none. Only the gateway can tell whether it is good. */
export function claimsOf(token) {
  try {
    const part = token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
    const bytes = Uint8Array.from(atob(part), (c) => c.charCodeAt(0));
    const { sub, role = "viewer" } = JSON.parse(new TextDecoder().decode(bytes));
    return typeof sub === "string" ? { user: sub, role, expires: expiryOf(token) } : null;
  } catch {
    return null;
  }
}

/** Reads the fragment, and leaves in the address bar only what is no secret. */
export function takeFragment() {
  const fields = new URLSearchParams(location.hash.slice(1));
  const given = KNOWN.filter((name) => fields.has(name));
  const found = Object.fromEntries(given.map((name) => [name, fields.get(name).trim()]));
  if ("token" in found) writeFragment(found);
  return found;
}

/** Writes what leads back here into the address bar; never a token. */
export function writeFragment({ user, role, live }) {
  const fields = new URLSearchParams();
  const shown = authOff ? { user, role, live } : { live };
  for (const [name, value] of Object.entries(shown)) if (value) fields.set(name, value);
  const fragment = fields.size ? `#${fields}` : "";
  history.replaceState(null, "", location.pathname + fragment);
}

/** The one who is named, or null. */
export function identify({ token, user, role = "streamer" }) {
  if (authOff) return user ? { user, role } : null;
  const claims = token ? claimsOf(token) : null;
  return claims && { ...claims, token };
}

/** What the client connects with. */
export function clientOptions(who) {
  return who.token ? { token: who.token } : { userId: who.user, role: who.role };
}
