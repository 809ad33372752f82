// Light, dark, or as the system has it: the choice is stored, and whoever draws on a canvas is told.

const KEY = "weir-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

export function currentTheme() {
  return document.documentElement.dataset.theme || (system.matches ? "dark" : "light");
}

/** The colour that a custom property stands for in the theme in force, as #rrggbb: what canvases understand. */
export function token(name) {
  const probe = document.createElement("span");
  probe.hidden = true;
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const [red, green, blue] = getComputedStyle(probe).color.match(/[\d.]+/g).map(Number);
  probe.remove();
  return `#${[red, green, blue].map((part) => Math.round(part).toString(16).padStart(2, "0")).join("")}`;
}

function announce() {
  document.dispatchEvent(new CustomEvent("weir:theme", { detail: currentTheme() }));
}

export function toggleTheme() {
  const next = currentTheme() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // Not stored: the choice lasts for this page.
  }
  label();
  announce();
}

function label() {
  for (const button of document.querySelectorAll("[data-action='theme']")) {
    const next = currentTheme() === "dark" ? "light" : "dark";
    button.setAttribute("aria-label", `Use the ${next} theme`);
    button.title = `Use the ${next} theme`;
  }
}

export function startTheme() {
  label();
  system.addEventListener("change", () => {
    label();
    announce();
  });
}
