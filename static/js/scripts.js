// Loads a classic script once; for the vendored libraries that are not ES modules.

const loading = new Map();

// By whole names, so that collecting the static files can put their hashes in.
export const VENDOR = {
  plotly: new URL("../vendor/plotly/plotly-basic.min.js", import.meta.url).href, // lines
  plotlyMaps: new URL("../vendor/plotly/plotly-cartesian.min.js", import.meta.url).href, // heat maps, too
};

/** Load it, unless the page asks for it itself; `isThere` says whether it has run. */
export function loadScript(url, isThere = () => false) {
  if (!loading.has(url)) {
    loading.set(url, new Promise((resolve, reject) => {
      const fail = () => {
        loading.delete(url); // so that it is tried again
        reject(new Error(`${url} did not load`));
      };
      if (isThere()) return resolve();
      const own = [...document.scripts].find((script) => script.src === url);
      if (own && document.readyState !== "complete") { // until then it may still come
        own.addEventListener("load", resolve);
        addEventListener("load", () => (isThere() ? resolve() : fail()));
        return undefined;
      }
      const script = document.createElement("script");
      script.src = url;
      script.onload = resolve;
      script.onerror = fail;
      document.head.append(script);
      return undefined;
    }));
  }
  return loading.get(url);
}

export async function fetchJson(url, options = {}) {
  const response = await fetch(url, { headers: { Accept: "application/json" }, credentials: "same-origin", ...options });
  if (!response.ok) throw Object.assign(new Error(`${response.status} for ${url}`), { status: response.status });
  return response.json();
}
