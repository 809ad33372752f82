// Runs before the first paint, so that neither a stored theme nor a folded navigation flashes. The rest is in theme.js
// and menus.js.
(function () {
  try {
    var stored = localStorage.getItem("weir-theme");
    if (stored === "light" || stored === "dark") document.documentElement.dataset.theme = stored;
    var side = localStorage.getItem("weir-side") || (matchMedia("(max-width: 1400px)").matches ? "folded" : "open");
    document.documentElement.dataset.side = side;
  } catch (error) {
    // Storage may be closed to us; the system's preference then decides.
  }
})();
