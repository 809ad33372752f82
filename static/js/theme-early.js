// Runs before the first paint, so that a stored theme never flashes. Everything else of the theme is in theme.js.
(function () {
  try {
    var stored = localStorage.getItem("weir-theme");
    if (stored === "light" || stored === "dark") document.documentElement.dataset.theme = stored;
  } catch (error) {
    // Storage may be closed to us; the system's preference then decides.
  }
})();
