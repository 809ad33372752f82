"""Breaking out of expressions, on Spark: each way that was found, its kind, and the second wall without the first."""

from __future__ import annotations

import json
from itertools import product
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.columns import ColumnError, Columns
from scheduler.model.errors import WeirError
from workers.library.select import compiling, parsed_text
from workers.library.select.compiling import compiled
from workers.library.select.functions import CALLED
from workers.library.select.grammar import parse
from workers.library.select.parsed_text import UndeclaredExpression
from workers.library.spark_text import columns_ddl, identifier, literal

from .conftest import build

SECRET = "what-nobody-may-read"
BREAK_OUTS = {
    "a field of what has no type": "SELECT coalesce(array_max(NULL), struct('1' AS x)).`x`` || java_method('java.lang."
    "System', 'getProperty', 'weir.secret') || ``symbol` AS z FROM input",
    "a field that from_json declares": r"SELECT from_json(symbol, '`x`` || java_method(\'java.lang.System\', "
    r"\'getProperty\', \'weir.secret\') || ``symbol` string').`x`` || java_method('java.lang.System', 'getProperty', "
    "'weir.secret') || ``symbol` AS z FROM input",
    "an element of NULL": "SELECT NULL[0].`x`` || version() || ``x` AS z FROM input",
    "an element of element_at": "SELECT element_at(NULL, 'a').`x`` || version() || ``x` AS z FROM input",
    "a value of map_values": "SELECT map_values(NULL).`x`` || version() || ``x` AS z FROM input",
    "a sum over NULL": "SELECT aggregate(NULL, NULL, (a, b) -> a).`x`` || version() || ``x` AS z FROM input",
    "a column": "SELECT `symbol`` || version() || ``symbol` AS z FROM input",
    "a name": "SELECT symbol AS `z`` , version() AS ``y` FROM input",
    "an excepted column": "SELECT * EXCEPT (`symbol) FROM input WHERE (version() <> '' `), 1 AS z FROM input",
    "a variable": "SELECT transform(split(symbol, ','), `x -> version()) -- ` -> 1) AS z FROM input",
    "a field of struct": "SELECT struct(symbol AS `x', version(), 'y`) AS z FROM input",
    "a field of named_struct": "SELECT named_struct('x\\', version(), \\'y', symbol) AS z FROM input",
}
REPLACED = {  # Spark would put these in before it reads the text
    "${system:weir.secret}", "${env:PATH}", "${spark.app.id}", "${hiveconf:spark.app.id}", "$${system:weir.secret}",
    "\\${system:weir.secret}"}


@pytest.fixture
def events(spark):
    spark._jvm.java.lang.System.setProperty("weir.secret", SECRET)
    return spark.createDataFrame(
        [(1, 1, 1, "x", [1], json.dumps({"a": 1}))],
        "_seq bigint, _time bigint, _born bigint, symbol string, list array<int>, r string")


def rows(frame) -> str:
    return str([row.asDict() for row in frame.collect()])


@pytest.mark.parametrize("query", BREAK_OUTS.values(), ids=BREAK_OUTS)
def test_no_way_out_of_a_query(events, query):
    try:
        text = rows(build("sql", events, query=query))
    except (WeirError, ColumnError):
        return
    assert SECRET not in text and events.sparkSession.version not in text


@pytest.mark.parametrize("side", ["left", "right"])
def test_no_way_out_of_a_condition_of_join(events, side):
    out = "coalesce(array_max(NULL), struct('1' AS x)).`x`` || version() || ``symbol` = ''"
    conditions = {"left": "symbol = 'x'", "right": "symbol = 'y'", side: out}
    with pytest.raises(WeirError):
        build("join", events, on=["symbol"], left_columns=["r"], right_columns=["s=r"], **conditions)


@pytest.mark.parametrize("substitute", [pytest.param("false", marks=pytest.mark.long), "true"])
def test_nothing_is_put_into_a_constant(spark, events, substitute):
    """Neither with the setting of a slot's session, nor where Spark's own is in force."""
    ways = ["{}", "concat(symbol, {})", "replace('a', 'a', {})"]  # in one query, which is compiled once
    entries = {
        f"z{number}": (way.format("'{}'".format(text.replace("\\", "\\\\"))), text)
        for number, (way, text) in enumerate(product(ways, sorted(REPLACED)))}
    query = ", ".join(f"{entry} AS {name}" for name, (entry, _) in entries.items())
    spark.conf.set("spark.sql.variable.substitute", substitute)
    try:
        [row] = build("sql", events, query=f"SELECT {query} FROM input").collect()
    finally:
        spark.conf.set("spark.sql.variable.substitute", "false")
    assert {name: row[name].removeprefix("x") for name in entries} == {
        name: text for name, (_, text) in entries.items()}


def test_the_setting_alone_keeps_spark_from_putting_in_what_the_machine_knows(spark, events):
    [row] = events.selectExpr("'${system:weir.secret}' AS z").collect()
    assert row.z == "${system:weir.secret}"


@pytest.mark.parametrize("text", [
    "java_method('java.lang.System', 'getProperty', 'weir.secret')", "reflect('java.lang.System', 'nanoTime')",
    "(SELECT 1)", "other", "symbol IN (SELECT symbol FROM other)", "EXISTS (SELECT 1)", "version()",
    "raise_error(symbol)", "symbol || other", "count(*) OVER ()", "*",
    "IDENTIFIER('version')()", "system.builtin.version()", "uuid()",
    "(SELECT value FROM text.`/etc/passwd` LIMIT 1)", "transform(list, x -> version())",
    "transform(list, x -> current_user)", "transform(list, x -> `other`.`x`)", "filter(list, x -> _metadata.path = x)",
    "transform(list, x -> transform(list, y -> z))", ":p", "symbol:a",
    "try_variant_get(parse_json(r), '$.a', 'string')", "assert_true(false)", "input_file_name()"])
def test_the_second_wall_stands_alone(events, text):
    """What would be written if the first wall had a hole."""
    with pytest.raises((UndeclaredExpression, WeirError)):
        parsed_text.select_entries(events, [f"{text} AS z"], columns=events.columns)
    with pytest.raises((UndeclaredExpression, WeirError)):
        parsed_text.read_condition(events, f"({text}) IS NOT NULL", columns=events.columns)


@pytest.mark.parametrize("way", ["a field of what has no type", "a field that from_json declares"])
def test_the_old_break_out_ends_at_the_second_wall(events, way):
    """The first wall as it was: names as they are, NULL of every kind, and nobody asks for a type."""
    def as_it_was(self, node):
        method = next(method for kinds, method in compiling._METHODS if isinstance(node, kinds))
        return method(self, node)

    with (
        patch.object(compiling, "identifier", "`{}`".format), patch.object(compiling.NameScope, "typed", as_it_was),
        patch("workers.library.select.functions._NESTED", frozenset()),
        patch("workers.library.select.types.is_field_name", bool),
        patch("workers.library.select.calling.type_text", "{}".format),
        pytest.raises(WeirError) as refusal,
    ):
        build("sql", events, query=BREAK_OUTS[way])
    assert isinstance(refusal.value, UndeclaredExpression)


hostile = st.text(st.sampled_from("ab1_ `'\"\\-/*#$.;=(){}[]|\n\0\u2028ä"), min_size=1, max_size=10)
shapes = st.sampled_from([
    "{column} AS z", "upper({column}) AS z", "{column} || {constant} AS z", "struct({column} AS f) AS z",
    "from_json({column}, {schema}) AS z", "from_json({column}, {schema}).{field} AS z", "({column} = {constant}) AS z",
    "transform(split({column}, ','), v -> v || {constant}) AS z", "CASE WHEN {column} IN ({constant}) THEN 1 END AS z",
    "coalesce(array_max(NULL), struct({constant} AS f)).{field} AS z", "nest.{field} AS z", "nest[{constant}] AS z",
    "* EXCEPT ({column}), 1 AS z", "get_json_object({column}, '$.a') AS z", "{column} AS {field}"])


@given(shapes, hostile, hostile, hostile)
def test_each_name_and_function_in_the_text_was_declared(spark, shape, name, field, constant):
    """Spark's parser is the judge: of whatever is written it finds columns of the input and functions of the subset."""
    quoted = "`{}`".format
    query = "SELECT {} FROM input".format(shape.format(
        column=quoted(name.replace("`", "``")), field=quoted(field.replace("`", "``")),
        constant="'{}'".format(constant.replace("\\", "\\\\").replace("'", "\\'")),
        schema="'{} int'".format(quoted(field.replace("`", "``")).replace("\\", "\\\\").replace("'", "\\'"))))
    try:
        columns = Columns.stream({name: "string", "nest": f"struct<{field}:int>"})
        plan = compiled(parse(query), columns)
    except WeirError:
        return
    for entry in plan.entries:
        nodes = parsed_text.parse_texts(spark, [entry])
        for kind, *names in nodes:
            short = kind.rpartition(".")[2]
            if short == "UnresolvedAttribute":
                assert names[0] in columns and all(part == field for part in names[1:])
            elif short == "UnresolvedFunction":
                assert len(names) == 1 and names[0].lower() in CALLED
            elif short in ("Alias", "MultiAlias"):
                assert set(names) <= {"z", name, field}
        parsed_text.require_declared(nodes, list(columns))


@given(hostile)
def test_sparks_parser_reads_the_very_name_and_constant(spark, text):
    parser = spark._jsparkSession.sessionState().sqlParser()
    for substitute in ("false", "true"):
        spark.conf.set("spark.sql.variable.substitute", substitute)
        try:
            assert parser.parseExpression(literal(text)).value().toString() == text
            try:
                written = identifier(text)
            except WeirError:
                continue
            assert parsed_text.parse_texts(spark, [written])[0][1:] == [text]
            assert spark._jvm.org.apache.spark.sql.types.StructType.fromDDL(
                columns_ddl({text: "int"})).fieldNames()[0] == text
        finally:
            spark.conf.set("spark.sql.variable.substitute", "false")


OPERATORS = [
    *(f"symbol {sign} 'x'" for sign in ("=", "<>", "<", "<=", ">", ">=", "<=>", "LIKE", "ILIKE", "RLIKE", "NOT LIKE",
                                        "NOT ILIKE", "||")),
    *(f"_seq {sign} 2" for sign in ("+", "-", "*", "/", "%", "DIV"))]


@pytest.mark.parametrize("query", [
    "SELECT {} FROM input".format(", ".join(f"{text} AS z{number}" for number, text in enumerate(OPERATORS))),
    "SELECT transform(list, x -> transform(list, y -> x + y + _seq)) AS z, aggregate(list, 0, (sum, x) -> sum + x) AS a"
    " FROM input",
    "SELECT symbol FROM input WHERE _seq BETWEEN 0 AND 2 OR symbol IN ('a', 'b') AND NOT symbol IS NULL"])
def test_what_a_query_may_say_passes_both_walls(events, query):
    assert len(build("sql", events, query=query).collect()) == 1


def test_text_that_grows_is_bounded():
    """Each DIV has its right side three times in what Spark is told."""
    expression = "a"
    for _ in range(30):
        expression = f"(1 DIV {expression})"
    with pytest.raises(WeirError, match="characters for Spark"):
        compiled(parse(f"SELECT {expression} AS z FROM input"), Columns.stream({"a": "bigint"}))


def test_fields_with_dashes_and_spaces_are_read(events):
    message = json.dumps({"wind-speed": 4, "a b": {"c": 1}})
    frame = build("sql", events, query=f"SELECT from_json('{message}', '`wind-speed` int, `a b` struct<c: int>') AS j "
                  "FROM input")
    [row] = build("sql", frame, query="SELECT j.`wind-speed` AS speed, j.`a b`.c AS c FROM input").collect()
    assert (row.speed, row.c) == (4, 1)
