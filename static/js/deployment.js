// Moving queries by dragging: a query is dropped on a slot that it may go to, and its own form is sent for it.

export function startDeployment(board) {
  let dragged = null;
  const mayDrop = (slot) => dragged && dragged.dataset.targets.split(" ").includes(slot.dataset.slot);
  const clear = () => {
    for (const slot of board.querySelectorAll("[data-slot]")) slot.removeAttribute("data-drop");
    dragged = null;
  };

  board.addEventListener("dragstart", (event) => {
    dragged = event.target.closest?.("[data-query]");
    if (!dragged) return;
    event.dataTransfer.setData("text/plain", dragged.dataset.query);
    event.dataTransfer.effectAllowed = "move";
    for (const slot of board.querySelectorAll("[data-slot]")) {
      slot.dataset.drop = mayDrop(slot) ? "yes" : "no";
    }
  });
  board.addEventListener("dragover", (event) => {
    const slot = event.target.closest?.("[data-slot]");
    if (slot && mayDrop(slot)) event.preventDefault();
  });
  board.addEventListener("drop", (event) => {
    const slot = event.target.closest?.("[data-slot]");
    if (!slot || !mayDrop(slot)) return;
    event.preventDefault();
    const form = dragged.querySelector("form");
    form.elements.slot.value = slot.dataset.slot;
    form.requestSubmit();
  });
  board.addEventListener("dragend", clear);
}
