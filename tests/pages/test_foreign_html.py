"""Foreign HTML: whatever it is, what comes of it is text in a few elements, with the caller's links alone."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.pages.foreign_html import harmless

ALLOWED = {
    "table", "thead", "tbody", "tr", "th", "td", "ul", "ol", "li", "p", "pre", "strong", "code", "em", "dl", "dt", "dd",
    "h2", "h3", "a", "br"}
PIECES = st.sampled_from([
    "<script>", "</script>", "<style>", "</style", "<svg onload=x()>", "</svg>", "<table class=x onclick=y>",
    "</table>", "<td colspan=3>", "<td colspan='9\"><script>'>", "<a href=/jobs/job/?id=1>",
    "<a href='javascript:x()'>", "<a href='//evil.example/jobs/'>", "<a href='/\\evil.example'>",
    "<a href='http://[x'>", "</a>", "<img src=x onerror=y>", "<iframe src=/>", "<form action=/x><input name=q>",
    "</form>", "<!--", "-->", "<![CDATA[", "]]>", "<", "&lt;script&gt;", "&#x3c;", '"', "'", "</", "<br/>", "<b>",
    "</b>", "<div>", "</div>", "<h3>", "<base href=//evil.example>", "text", "\0", "<template>", "<math>",
    "<textarea>", "<plaintext>", "<noscript><p title='</noscript><img src=x>'>", "</noscript>"])
HTML = st.lists(PIECES | st.text(max_size=8), max_size=30).map("".join)


class Seen(HTMLParser):
    """The elements and attributes of what was written, and whether each ends where it should."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags, self.open, self.texts = [], [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def handle_comment(self, data):
        raise AssertionError(data)

    handle_decl = handle_pi = unknown_decl = handle_comment


def link(path: str, query: dict[str, str]) -> str | None:
    return f"/own/{query.get('id', '')}" if path == "jobs/job/" else None


@given(HTML)
def test_nothing_comes_through_but_texts_in_few_elements(html: str) -> None:
    seen = Seen(harmless(html, link=link))
    assert not seen.open, "every element ends"
    for tag, attributes in seen.tags:
        assert tag in ALLOWED, tag
        if tag == "a":
            assert attributes.keys() == {"href"} and attributes["href"].startswith("/own/")
        elif tag == "table":
            assert attributes == {"class": "table"}
        else:
            assert attributes.keys() <= {"colspan", "rowspan"} and all(map(str.isdecimal, attributes.values()))


def test_tables_texts_and_links_stay() -> None:
    html = ("<html><head><title>Jobs</title><script>alert(1)</script></head><body><h3>Active &amp; done</h3><form>"
            "<table id=t><tr><td colspan=2><a href='/jobs/job/?id=7' onclick=x>job <b>7</b></a><a href='/kill/'>(kill)"
            "</a></td></tr></table></form><table><tr><td>1 &lt; 2")
    assert harmless(html, link=link) == (
        '<h2>Active &amp; done</h2><table class="table"><tr><td>1 &lt; 2</td></tr></table>')
    assert '<a href="/own/7">job <strong>7</strong></a>(kill)' in harmless(html.replace("form>", "div>"), link=link)


def test_a_script_that_is_long_cuts_nothing_off() -> None:
    html = f"<p>before</p><script>{'x < y; ' * 50_000}</script><p>behind</p>"
    assert harmless(html, link=link) == "<p>before</p><p>behind</p>"


@pytest.mark.parametrize("html", ["<div>" * 100_000, "<b>" * 100_000 + "x", "<td>" * 300_000, "<script>" * 5_000 + "x",
                                  "<p>" + "<a" * 300_000, "<p>" + "<a b='" * 100_000])
def test_what_is_deep_or_long_is_bounded(html: str) -> None:
    assert len(harmless(html, link=link)) < 400_000
