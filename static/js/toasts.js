// Short messages in the corner: announced politely, gone by themselves unless they are errors.

const LIFE_MS = 6000;

function dismissButton(toast) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "icon-button";
  button.setAttribute("aria-label", "Dismiss");
  button.textContent = "×";
  button.addEventListener("click", () => toast.remove());
  return button;
}

function arm(toast) {
  toast.append(dismissButton(toast));
  if (!toast.classList.contains("toast-error")) setTimeout(() => toast.remove(), LIFE_MS);
}

export function toast(message, level = "info") {
  const element = document.createElement("div");
  element.className = `toast toast-${level}`;
  const body = document.createElement("div");
  body.textContent = message;
  element.append(body);
  document.getElementById("toasts").append(element);
  arm(element);
}

export function startToasts() {
  for (const element of document.querySelectorAll("#toasts .toast")) arm(element);
}
