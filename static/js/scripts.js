// Loads a classic script once; for the vendored libraries that are not ES modules.

const loading = new Map();

// By whole names, so that collecting the static files can put their hashes in.
export const VENDOR = {
  plotly: new URL("../vendor/plotly/plotly-cartesian.min.js", import.meta.url).href,
  elk: new URL("../vendor/elkjs/elk-api.js", import.meta.url).href,
  elkWorker: new URL("../vendor/elkjs/elk-worker.min.js", import.meta.url).href,
};

export function loadScript(url) {
  if (!loading.has(url)) {
    loading.set(url, new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = url;
      script.onload = resolve;
      script.onerror = () => {
        loading.delete(url); // so that it is tried again
        reject(new Error(`${url} did not load`));
      };
      document.head.append(script);
    }));
  }
  return loading.get(url);
}

export async function fetchJson(url, options = {}) {
  const response = await fetch(url, { headers: { Accept: "application/json" }, credentials: "same-origin", ...options });
  if (!response.ok) throw Object.assign(new Error(`${response.status} for ${url}`), { status: response.status });
  return response.json();
}
