"""Text for Spark, without Spark: names, constants and types, with quotes, comments and line ends in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.library.config import InvalidConfig
from workers.library.select import types
from workers.library.select.parsed_text import UndeclaredExpression, require_declared
from workers.library.spark_text import columns_ddl, identifier, literal, type_text
from workers.library.spark_types import fields, is_field_name, is_type

hostile = st.text(st.sampled_from("a1_ `'\"\\-/*#$.,;:<>(){}[]|=\n\r\t\0\u2028\u202e\u200bä"), max_size=12)
CATALYST = "org.apache.spark.sql.catalyst"


@given(hostile)
def test_a_name_is_refused_or_ends_where_it_should(name):
    """Spark reads a name from one backtick to the next that is not doubled."""
    try:
        written = identifier(name)
    except InvalidConfig:
        return
    inside = written[1:-1]
    assert written[0] == written[-1] == "`" and "`" not in inside.replace("``", "")
    assert inside.replace("``", "`") == name and name.isprintable() and "${" not in written


@given(hostile)
def test_a_constant_ends_where_it_should(text):
    """Spark reads a constant from one quote to the next that no backslash is before."""
    written = literal(text)
    inside = written[1:-1].replace("\\\\", "")
    assert written[0] == written[-1] == "'" and "'" not in inside.replace("\\'", "") and "${" not in written


names = st.one_of(hostile, st.sampled_from(["room", "wind-speed", "a b", "x.y", "Größe"]))
simple = st.sampled_from(["string", "bigint", "double", "boolean", "timestamp"])
kinds = st.recursive(simple, lambda inner: st.one_of(
    st.builds("array<{}>".format, inner), st.builds("map<string,{}>".format, inner),
    st.builds("struct<{}:{},b:{}>".format, names, inner, inner)), max_leaves=4)


@given(kinds)
def test_a_type_is_refused_or_written_with_its_fields_quoted(kind):
    if not is_type(kind):
        with pytest.raises(InvalidConfig):
            type_text(kind)
        return
    written = type_text(kind)
    assert all(f"`{name}`:" in written for name in fields(kind))
    assert types.read_schema(f"x {written}") == f"struct<x:{kind}>"  # another parser takes it for the same type


@given(names, kinds)
def test_a_schema_says_no_more_than_its_columns(name, kind):
    try:
        ddl = columns_ddl({name: kind})
    except InvalidConfig:
        return
    if is_field_name(name):
        assert types.read_schema(ddl) == f"struct<{name}:{kind}>"


@pytest.mark.parametrize("ddl", [
    "`x`` || java_method('a', 'b') || ``y` int", "`a\nb` int", "`a:int,b` int", "`a<b` int", "a int, `)` int",
    "a struct<`x``y`: int>", "`\u202eabc` int", f"`{'x' * 300}` int"])
def test_a_schema_with_names_that_delimit_is_refused(ddl):
    assert types.read_schema(ddl) is None


@pytest.mark.parametrize("node", [
    *([f"{CATALYST}.expressions.{name}"] for name in (
        "ScalarSubquery", "Exists", "WindowExpression", "CallMethodViaReflection", "Concat")),
    [f"{CATALYST}.analysis.UnresolvedStar"], [f"{CATALYST}.analysis.ExpressionWithUnresolvedIdentifier"],
    *([f"{CATALYST}.analysis.UnresolvedFunction", *names] for names in (
        ["java_method"], ["reflect"], ["raise_error"], ["system", "builtin", "upper"])),
    [f"{CATALYST}.analysis.UnresolvedAttribute", "other"], ["some.other.Upper"]])
def test_nodes_that_no_query_has_are_refused(node):
    with pytest.raises(UndeclaredExpression):
        require_declared([[f"{CATALYST}.expressions.Literal"], node], ["symbol"])


def test_what_a_query_has_is_let_through():
    require_declared([[f"{CATALYST}.analysis.UnresolvedFunction", "UPPER"],
                      [f"{CATALYST}.analysis.UnresolvedAttribute", "symbol", "x"]], ["symbol"])
