// Moving queries by dragging: a query that is dropped on another slot sends its own form, and the page comes back with
// what the move would bring, or with why it is refused.

export function startDeployment(board) {
  let dragged = null;
  const home = () => dragged?.closest("[data-slot]");
  const slotAt = (event) => {
    const slot = event.target.closest?.("[data-slot]");
    return dragged && slot !== home() ? slot : null;
  };
  const clear = () => {
    for (const slot of board.querySelectorAll("[data-slot]")) slot.removeAttribute("data-drop");
    dragged = null;
  };

  board.addEventListener("dragstart", (event) => {
    dragged = event.target.closest?.("[data-query]");
    if (!dragged) return;
    event.dataTransfer.setData("text/plain", dragged.dataset.query);
    event.dataTransfer.effectAllowed = "move";
    const targets = dragged.dataset.targets.split(" ");
    for (const slot of board.querySelectorAll("[data-slot]")) {
      if (slot !== home()) slot.dataset.drop = targets.includes(slot.dataset.slot) ? "yes" : "no";
    }
  });
  board.addEventListener("dragover", (event) => {
    if (slotAt(event)) event.preventDefault();
  });
  board.addEventListener("drop", (event) => {
    const slot = slotAt(event);
    if (!slot) return;
    event.preventDefault();
    const form = dragged.querySelector("form");
    form.elements.slot.value = slot.dataset.slot;
    form.requestSubmit();
  });
  board.addEventListener("dragend", clear);
}
