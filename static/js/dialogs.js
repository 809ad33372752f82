// A form with data-confirm asks first, in one shared <dialog>; a submitted form shows that it is busy.

function fill(dialog, form) {
  dialog.querySelector("[data-part='title']").textContent = form.dataset.confirm;
  dialog.querySelector("[data-part='body']").textContent = form.dataset.confirmBody ?? "";
  const go = dialog.querySelector("[data-part='go']");
  go.textContent = form.dataset.confirmLabel ?? "Continue";
  go.classList.toggle("button-danger", "danger" in form.dataset);
  go.classList.toggle("button-primary", !("danger" in form.dataset));
}

function ask(form, submitter) {
  const dialog = document.getElementById("confirm");
  fill(dialog, form);
  dialog.returnValue = "";
  dialog.onclose = () => {
    if (dialog.returnValue !== "go") return;
    form.dataset.confirmed = "";
    form.requestSubmit(submitter ?? undefined);
  };
  dialog.showModal();
}

function busy(submitter) {
  if (!submitter) return;
  // After this tick: a disabled button would not send its own name and value.
  setTimeout(() => {
    submitter.setAttribute("aria-busy", "true");
    submitter.disabled = true;
  });
}

export function startDialogs() {
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method === "dialog") return;
    if (form.dataset.confirm && !("confirmed" in form.dataset)) {
      event.preventDefault();
      ask(form, event.submitter);
      return;
    }
    delete form.dataset.confirmed;
    if (form.method === "post") busy(event.submitter);
  });
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-dialog]");
    if (opener) document.getElementById(opener.dataset.dialog)?.showModal();
  });
  // Back and forward restore a page as it was left: with its buttons busy.
  addEventListener("pageshow", () => {
    for (const button of document.querySelectorAll("button[aria-busy='true']")) {
      button.removeAttribute("aria-busy");
      button.disabled = false;
    }
  });
}
