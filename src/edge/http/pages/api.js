// The HTTP API, for the one who looks.

/** A refusal of the API, or no answer. */
export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const PATIENCE = 15_000;
const LARGEST_PAGE = 1_000;

export class Api {
  #headers;

  constructor(token) {
    this.#headers = token ? { authorization: `Bearer ${token}` } : {};
  }

  get = (path) => this.#call("GET", path);

  /** The first so many items of a list, from as many pages as that takes, and whether there are more. */
  async list(path, most) {
    const items = [];
    let cursor = null;
    do {
      const limit = Math.min(LARGEST_PAGE, most - items.length);
      const query = new URLSearchParams({ limit, ...(cursor && { cursor }) });
      const page = await this.get(`${path}${path.includes("?") ? "&" : "?"}${query}`);
      items.push(...page.items);
      cursor = page.cursor;
    } while (cursor !== null && items.length < most);
    return { items, more: cursor !== null };
  }

  put = (path, body = {}) => this.#call("PUT", path, body);

  delete = (path) => this.#call("DELETE", path);

  async #call(method, path, body) {
    const headers = { ...this.#headers, ...(body ? { "content-type": "application/json" } : {}) };
    const request = { method, headers, body: body && JSON.stringify(body), signal: AbortSignal.timeout(PATIENCE) };
    let answer;
    try {
      answer = await fetch(path, request);
    } catch (error) {
      throw new ApiError(0, "network", error.message);
    }
    const read = answer.status === 204 ? null : await answer.json().catch(() => ({}));
    if (!answer.ok) throw new ApiError(answer.status, read?.code ?? `http_${answer.status}`, read?.detail);
    return read;
  }
}

/** A path of the API, with each part as it must be written in an address. */
export const path = (strings, ...parts) => String.raw({ raw: strings }, ...parts.map(encodeURIComponent));
