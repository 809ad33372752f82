"""Pictures of the figures of a page that a measurement has written, such as that of `./weir bench migration`.

``python -m tests.browser.figures PAGE --of TITLE --out FILE``: all figures whose titles begin so, two side by side.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from playwright.sync_api import Browser

from tests.browser.drive import browser, context, until

WIDTH, HEIGHT = 1600, 480
FIGURE = ".plotly-graph-div .main-svg"
# Leaves the figures with this title, two in a row; how many there are.
ARRANGE = """title => {
  const figures = [...document.querySelectorAll('.plotly-graph-div')].filter(
    figure => figure.layout.title.text.startsWith(title));
  document.body.replaceChildren(...figures);
  document.body.style = 'display: grid; gap: 8px; margin: 8px; background: white; grid-template-columns: '
    + (figures.length > 1 ? '1fr 1fr' : '1fr');
  figures.forEach(figure => { figure.style.minWidth = 0; Plotly.Plots.resize(figure); });
  return figures.length;
}"""


def main() -> None:
    """Take it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--of", required=True, metavar="TITLE", help="what titles begin with")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    with browser() as chromium:
        if not take(chromium, given.page, title=given.of, out=given.out):
            parser.error(f"no figure is called {given.of}")


def take(chromium: Browser, written: Path, *, title: str, out: Path) -> int:
    """A picture of the figures of a page whose titles begin so; how many there are.

    Parameters
    ----------
    chromium : Browser
        The browser.
    written : Path
        The page, as a file.
    title : str
        What titles begin with.
    out : Path
        Where the picture goes.
    """
    within = context(chromium, viewport={"width": WIDTH, "height": HEIGHT})
    page = within.new_page()
    page.goto(written.resolve().as_uri())
    until(lambda: page.locator(FIGURE).count(), "a figure")
    count = page.evaluate(ARRANGE, title)
    if count:
        page.wait_for_timeout(1_000)  # they are drawn anew at their new width
        page.screenshot(path=out, full_page=True)
    within.close()
    return count


if __name__ == "__main__":
    main()
