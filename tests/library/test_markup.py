"""Reading XML documents by path, against the standard library's tree of the same text."""

from __future__ import annotations

from xml.etree import ElementTree
from xml.parsers import expat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.library import registry
from workers.library.config import InvalidConfig
from workers.library.markup import (
    XML_DOCUMENT,
    _Reader,
    most_records,
    read_records,
    wanted_values,
    xml_document_check,
)
from workers.library.outside import typed

SIRI = """<?xml version="1.0"?><s:Siri xmlns:s="urn:siri" version="2.0"><s:Delivery><Stamp>12:00</Stamp>
  <Vehicle id="v1"><Line> 7 </Line><Call n="1"><Delay>30</Delay></Call><Call n="2"><Delay>60</Delay></Call></Vehicle>
  <Vehicle id="v2"><Line>a&amp;b<!-- not this --></Line></Vehicle><Vehicle/></s:Delivery></s:Siri>"""
VALUES = ["id=@id", "line=Line", "delay:double=Call/Delay", "call=Call/@n", "again=Line"]


def read(text, values, record=None):
    return read_records(text, wanted_values({"values": values, "record": record}))


def test_each_record_gives_its_first_values():
    assert read(SIRI, VALUES, "Delivery/Vehicle") == [
        ["v1", "7", "30", "1", "7"], ["v2", "a&b", None, None, "a&b"], [None] * 5]


def test_without_a_record_paths_go_from_the_root():
    assert read(SIRI, ["version=@version", "at=Delivery/Stamp", "id=Delivery/Vehicle/@id"]) == [["2.0", "12:00", "v1"]]


@pytest.mark.parametrize("text", [
    None, "", "no xml", "<a><b></a>", "<a>" * 300 + "</a>" * 300, "<a>\ud800</a>",
    '<!DOCTYPE a [<!ENTITY b "c">]><a><b>&b;</b></a>', '<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>',
], ids=range(8))
def test_what_cannot_be_read_is_null_or_no_record(text):
    assert read(text, ["b=b"]) == [[None]]
    assert read(text, ["b=b"], "b") == []


@pytest.mark.parametrize("encoding", ["none", "hex", "big5", "utf-16", "iso-8859-1"])
def test_text_is_read_whatever_bytes_it_says_that_it_was(encoding):
    """Of some the parser knows nothing: such an event would end its query, again and again."""
    assert read(f'<?xml version="1.0" encoding="{encoding}"?><a><b>ü</b></a>', ["b=b"]) == [["ü"]]


@pytest.mark.parametrize(("beside", "records", "come"), [
    (0, 100_000, 100_000), (1 << 20, 63, 63), (1 << 20, 64, 0), (64 << 20, 1, 1), (64 << 20, 2, 0)])
def test_a_document_whose_records_would_copy_too_much_has_none(beside, records, come):
    """Each copies all else that its event has: four MB of empty elements beside four MB of text are four TB."""
    given = read_records(
        f"<d>{'<v/>' * records}</d>", wanted_values({"values": ["n=@n"], "record": "v"}), most=most_records(beside))
    assert len(given) == come


@pytest.mark.parametrize("begin", ["", "<r>"])
@pytest.mark.parametrize("element", ["<a>", '<a b="" c="">'])
def test_no_path_is_kept_that_is_longer_than_those_asked_for(begin, element):
    """Each element below a long name would copy it: 8 MB took minutes."""
    reader = _Reader(wanted_values({"values": ["v=a/b", "w=a/@b"], "record": "r"}))
    with pytest.raises(expat.ExpatError):
        reader.read(f"<x>{begin}<{'n' * 100}>{element * 20}<b")
    paths = reader._outside + reader._inside
    assert len(paths) == 22 + bool(begin) and max(map(len, paths)) <= len("a/@b")
    assert read(f"<x><r><{'n' * 100}><a><b>no</b></a></{'n' * 100}><a><b>yes</b></a></r></x>", ["v=a/b"], "r") == [
        ["yes"]]


NAMES = st.sampled_from("abc")
TREES = st.recursive(
    st.builds(lambda name, text: (name, text, []), NAMES, st.text("xyz <&", max_size=3)),
    lambda inner: st.builds(lambda name, text, children: (name, text, children), NAMES,
                            st.text("xyz", max_size=2), st.lists(inner, max_size=3)),
    max_leaves=12,
)


def element(tree) -> ElementTree.Element:
    name, text, children = tree
    made = ElementTree.Element(name)
    made.text = text
    made.extend(element(child) for child in children)
    return made


@given(TREES, st.lists(NAMES, min_size=1, max_size=2), st.lists(NAMES, min_size=1, max_size=2))
def test_it_finds_what_the_tree_holds(tree, record, path):
    root = element(tree)
    expected = []
    for place in root.findall("/".join(record)):
        value = place.find("/".join(path))
        expected.append([None if value is None else (value.text or "").strip()])
    got = read(ElementTree.tostring(root, encoding="unicode"), ["v=" + "/".join(path)], "/".join(record))
    assert got == expected


@pytest.mark.parametrize("values", [[], ["a"], ["a="], ["a=/b"], ["a=b/"], ["a=@b/c"], ["a:decimal=b"], ["_seq=b"],
                                    ["a=b", "a=c"]])
def test_a_config_that_says_nothing_is_told(values):
    assert isinstance(registry.check(XML_DOCUMENT, {"values": values}), InvalidConfig)


def test_a_config_that_can_be_built_passes():
    xml_document_check({"values": VALUES, "record": "Delivery/Vehicle"})


@pytest.mark.parametrize("value,kind,expected", [
    ("7", "bigint", 7), ("7.5", "bigint", None), ("1e30", "double", 1e30), (str(2**63), "bigint", None),
    ("TRUE", "boolean", True), ("perhaps", "boolean", None), (0, "boolean", False), (b"x", "string", "x"),
    (None, "double", None), ("no time", "timestamp", None), ("x", "double", None), (float("inf"), "bigint", None),
])
def test_values_become_what_their_column_takes(value, kind, expected):
    assert typed(value, kind) == expected


def test_a_time_without_a_zone_is_universal():
    assert typed("2020-01-02T03:04:05", "timestamp").isoformat() == "2020-01-02T03:04:05+00:00"
    assert typed("2020-01-02T03:04:05+02:00", "timestamp").utcoffset().seconds == 7200
