// Follows a look at a source while it is under way. Where columns are proposed from it, the page comes anew with them
// once it is over. Without this script a link does the same.

const EVERY_MS = 400;

const card = document.querySelector("#seen[data-look]");

async function answer() {
  try {
    const response = await fetch(card.dataset.look, { credentials: "same-origin", headers: { Accept: "application/json" } });
    return response.ok ? await response.json() : null;
  } catch {
    return null; // a site that is away for a moment is asked again
  }
}

async function follow() {
  const seen = await answer();
  if (seen) card.querySelector("[data-part='events']").innerHTML = seen.html;
  if (!seen?.over) setTimeout(follow, EVERY_MS);
  else if ("proposes" in card.dataset) location.replace(location.pathname);
  else card.removeAttribute("data-look");
}

if (card) follow();
