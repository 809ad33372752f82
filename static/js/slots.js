// Slots before and after a plan: which side shows is the grid's own attribute, and what it means the style sheet's.

export function startSlots() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-slots-do]");
    if (!button) return;
    const grid = button.closest("[data-slots]");
    grid.dataset.view = button.dataset.slotsDo;
    for (const other of grid.querySelectorAll("[data-slots-do]")) {
      other.setAttribute("aria-pressed", String(other === button));
    }
  });
}
