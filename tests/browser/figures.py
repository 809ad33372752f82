"""Pictures of the figures of a page that a measurement has written, such as that of `./weir bench migration`.

``python -m tests.browser.figures PAGE --of TITLE --out FILE``: all figures whose titles begin so, two side by side.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.browser.drive import browser, context, until

WIDTH, HEIGHT = 1600, 900
FIGURE = ".plotly-graph-div"
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
    """Take them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--of", required=True, metavar="TITLE", help="what titles begin with")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    with browser() as chromium:
        page = context(chromium, viewport={"width": WIDTH, "height": HEIGHT}).new_page()
        page.goto(given.page.resolve().as_uri())
        until(lambda: page.locator(f"{FIGURE} .main-svg").count(), "a figure")
        if not page.evaluate(ARRANGE, given.of):
            parser.error(f"no figure is called {given.of}")
        page.wait_for_timeout(1_000)  # they are drawn anew at their new width
        page.screenshot(path=given.out, full_page=True)


if __name__ == "__main__":
    main()
