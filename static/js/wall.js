// The wall: full screen by button and key, a clock, and a screen that does not go dark. Nothing is stored.

const CLOCK_MS = 1000;

async function toggle(button) {
  try {
    if (document.fullscreenElement) await document.exitFullscreen();
    else await document.documentElement.requestFullscreen();
  } catch {
    button.hidden = true; // the browser has none, or forbids it
  }
}

async function stayAwake() {
  try {
    if (document.visibilityState === "visible") await navigator.wakeLock?.request("screen");
  } catch {
    // The screen then does as its owner has set it.
  }
}

export function startWall() {
  const button = document.querySelector("[data-action='fullscreen']");
  button.hidden = !document.fullscreenEnabled;
  button.addEventListener("click", () => toggle(button));
  document.addEventListener("keydown", (event) => {
    if (event.key === "f" && !event.ctrlKey && !event.metaKey && !event.altKey) toggle(button);
  });
  document.addEventListener("fullscreenchange", () => {
    button.setAttribute("aria-pressed", String(document.fullscreenElement !== null));
    document.body.toggleAttribute("data-fullscreen", document.fullscreenElement !== null);
    dispatchEvent(new Event("resize"));
  });
  const clock = document.querySelector("[data-part='clock']");
  const tick = () => { clock.textContent = new Date().toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" }); };
  tick();
  setInterval(tick, CLOCK_MS);
  stayAwake();
  document.addEventListener("visibilitychange", stayAwake);
}
