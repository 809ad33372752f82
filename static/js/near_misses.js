// A near miss adopted while a dataflow is still being written: its text takes the place of the editor's, and can be
// taken back there like anything that is typed.
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-near-text]");
  const view = window.weirEditor?.view;
  if (!button || !view) return;
  view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: button.dataset.nearText } });
  view.focus();
});
