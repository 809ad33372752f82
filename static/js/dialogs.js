// A form with data-confirm asks first, in one shared <dialog>; a submitted form shows that it is busy.

/** Ask in the page's dialog; resolves to whether the answer is yes. `field` labels a text that has to be given. */
export function confirmed({ title, body = "", label = "Continue", danger = false, field = "" }) {
  const dialog = document.getElementById("confirm");
  dialog.querySelector("[data-part='title']").textContent = title;
  dialog.querySelector("[data-part='body']").textContent = body;
  const go = dialog.querySelector("[data-part='go']");
  go.textContent = label;
  go.classList.toggle("button-danger", danger);
  go.classList.toggle("button-primary", !danger);
  const text = dialog.querySelector("#confirm-field");
  dialog.querySelector("[data-part='field']").hidden = !field;
  dialog.querySelector("label[for='confirm-field']").textContent = field;
  text.required = Boolean(field);
  text.value = "";
  // A form's first button answers Enter, and that is the one that cancels.
  text.onkeydown = (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    go.click();
  };
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.onclose = () => resolve(dialog.returnValue === "go");
  });
}

async function ask(form, submitter) {
  const { confirm: title, confirmBody: body, confirmLabel: label, confirmField: name, confirmFieldLabel: field } = form.dataset;
  if (!(await confirmed({ title, body, label, field, danger: "danger" in form.dataset }))) return;
  if (name) form.elements[name].value = document.getElementById("confirm-field").value;
  form.dataset.confirmed = "";
  form.requestSubmit(submitter ?? undefined);
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
