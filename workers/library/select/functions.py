"""The functions that a query may call: what they take, what they give, and how Spark is told to compute them.

Each gives the same for the same values on every machine, and fails for none: where Spark's own would fail (an index
that is not there, a number that is too large), what is computed gives null. A test holds each type to Spark's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from zoneinfo import available_timezones

from scheduler.model.bounds import PATTERN_CHARACTERS

from .. import spark_types
from . import types
from .safe_patterns import is_bounded

Kinds = Sequence[str | None]
Result = str | Callable[[Kinds], str | None]
UNSTEADY = frozenset((
    "rand", "randn", "random", "uuid", "now", "current_timestamp", "current_date", "current_time", "localtimestamp",
    "unix_timestamp", "shuffle", "monotonically_increasing_id", "spark_partition_id", "input_file_name", "current_user",
    "user", "session_user", "version", "curdate", "randstr", "uniform", "current_timezone"))
AGGREGATES = frozenset((
    "count", "sum", "avg", "mean", "min", "max", "first", "last", "collect_list", "collect_set", "stddev", "variance",
    "median", "percentile", "mode", "any", "every", "some", "approx_count_distinct", "row_number", "rank", "lag"))


@dataclass(frozen=True, slots=True)
class Function:
    """``takes``: a kind for each argument (``…`` behind the last: any number of it; ``?``: may be left out); ``gives``:
    a type, or what makes it of the arguments' types; ``spark``: what is computed, with {0}, {1}, … for the
    arguments; ``literal``: arguments that must be written out, each with what checks its text."""

    takes: tuple[str, ...]
    gives: Result
    spark: str = ""
    literal: tuple[tuple[int, Callable[[str], bool]], ...] = ()


def _first(kinds: Kinds) -> str | None:
    return kinds[0]


def _common(kinds: Kinds) -> str | None:
    result: str | None = types.VOID
    for kind in kinds:
        result = types.common_kind(result, kind)
    return result


def _array(kinds: Kinds) -> str | None:
    common = _common(kinds)
    return common and f"array<{common}>"


def _element(kinds: Kinds) -> str | None:
    return kinds[0] and spark_types.element(kinds[0])


def _list_of(part: Callable[[str], str | None]) -> Callable[[Kinds], str | None]:
    def result(kinds: Kinds) -> str | None:
        inner = kinds[0] and part(kinds[0])
        return inner and f"array<{inner}>"

    return result


def is_pattern(text: str) -> bool:
    """True where a regular expression means the same in Python and in Java, as far as its syntax tells, and is matched
    in bounded time."""
    if len(text) > PATTERN_CHARACTERS.most:
        return False
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return False
    is_alike = re.search(r"\(\?[^:=!<]|\(\?<[^=!]|\\[AZzGQEpPXRhHNuUxc0-9kK]|\[[^\]]*(\[|&&)", text) is None
    return is_alike and is_bounded(text)


def _is_path(text: str) -> bool:
    return text.startswith("$")


def _is_time_format(text: str) -> bool:
    return re.fullmatch(r"(yyyy|MM|dd|HH|mm|ss|SSS|[-/:., _]|'[\w ]*')*", text) is not None and bool(text)


def _is_read_format(text: str) -> bool:
    """Each run of a letter is read in one way alone, so that a long one takes no longer; ``MMM`` would be a name."""
    parts = r"yyyy|MM?(?!M)|dd?(?!d)|HH?(?!H)|mm|ss|S{1,6}(?!S)|X{3}|[-/:., _]|'[\w ]*'"
    return re.fullmatch(f"({parts})+", text) is not None


def _is_zone(text: str) -> bool:
    return "/" in text and text in available_timezones()


def _is_whole(text: str) -> bool:
    return re.fullmatch(r"-?\d{1,3}", text) is not None


def _is_plain_text(text: str) -> bool:
    return "$" not in text and "\\" not in text


def _any_of(*words: str) -> Callable[[str], bool]:
    return lambda text: text.lower() in words


def _each_as(gives: Result, takes: str, names: str, spark: str = "") -> dict[str, Function]:
    return {name: Function(tuple(takes.split()), gives, spark.replace("@", name)) for name in names.split()}


PATTERN_REMEDY = (
    f"A pattern is of character classes, groups and repetitions, {PATTERN_CHARACTERS.most:,} characters at the most. "
    "What a repetition repeats may match in one way only; two at most may end at several places.")
# What a text that is written out may be, where more than a look at the page is of help.
WRITTEN = {
    is_pattern: PATTERN_REMEDY,
    _is_time_format: "A pattern has yyyy, MM, dd, HH, mm, ss, SSS, signs, and words in quotes; YYYY would be the year "
                     "of a week.",
    _is_read_format: "A pattern has yyyy, MM or M, dd or d, HH or H, mm, ss, S to SSSSSS, X three times (the offset "
                     "from UTC), signs, and words in quotes; YYYY would be the year of a week.",
    _is_zone: "Name a zone of the IANA database, such as Europe/Berlin."}
_DOUBLE = "CAST({0} AS DOUBLE)"
_MS = "CASE WHEN {0} BETWEEN -60000000000000 AND 250000000000000 THEN {0} END"
_DAYS = "CASE WHEN {1} BETWEEN -700000 AND 700000 THEN {1} END"
_S = "CASE WHEN {0} BETWEEN -60000000000 AND 250000000000 THEN {0} END"

FUNCTIONS: dict[str, Function] = {
    **_each_as("string", "text", "upper lower trim ltrim rtrim initcap reverse soundex"),
    **_each_as("string", "text", "md5", "md5(CAST({0} AS BINARY))"),
    **_each_as("int", "text", "length char_length ascii"),
    **_each_as("boolean", "text text", "startswith endswith contains"),
    **_each_as("int", "text text", "instr levenshtein"),
    **_each_as("string", "text int int?", "substring substr"),
    **_each_as("string", "text int", "left right"),
    **_each_as("string", "text text text", "replace translate"),
    **_each_as("string", "text int text", "lpad rpad", "@({0}, LEAST({1}, 10000), {2})"),
    **_each_as("string", "scalar…", "concat"),
    "concat_ws": Function(("text", "scalar…"), "string"),
    "sha2": Function(("text", "int"), "string", "sha2(CAST({0} AS BINARY), {1})",
                     ((1, _any_of("224", "256", "384", "512")),)),
    "split": Function(("text", "text"), "array<string>", "weir_split({0}, {1}, {2})", ((1, is_pattern),)),
    "regexp_replace": Function(("text", "text", "text"), "string", "weir_replaced({0}, {1}, {2}, {3})",
                               ((1, is_pattern), (2, _is_plain_text))),
    "regexp_extract": Function(("text", "text", "int"), "string", "weir_extracted({0}, {1}, {2}, {3})",
                               ((1, is_pattern), (2, _is_whole))),
    # Numbers
    **_each_as("double", "number", "sqrt cbrt exp ln log10 log2 sin cos tan asin acos atan degrees radians",
            f"@({_DOUBLE})"),
    **_each_as("double", "number number", "pow power atan2", f"@({_DOUBLE}, CAST({{1}} AS DOUBLE))"),
    **_each_as("double", "number number", "log", f"log({_DOUBLE}, CAST({{1}} AS DOUBLE))"),
    **_each_as("double", "", "pi"),
    **_each_as("bigint", "number", "floor ceil ceiling",
            f"CASE WHEN abs({_DOUBLE}) < 9.2e18D THEN @({_DOUBLE}) END"),
    **_each_as("double", "number", "sign signum", f"sign({_DOUBLE})"),
    "abs": Function(("number",), lambda kinds: types.arithmetic(kinds[0]),
                    "CASE WHEN {0} < 0 THEN try_multiply({0}, -1) ELSE {0} END"),
    "round": Function(("number", "int?"), "double", "round({0})", ((1, _is_whole),)),
    "pmod": Function(("integer", "integer"), lambda kinds: types.arithmetic(_common(kinds)),
                     "CASE WHEN {1} <> 0 THEN pmod({0}, {1}) END"),
    "isnan": Function(("number",), "boolean", f"isnan({_DOUBLE})"),
    "nanvl": Function(("number", "number"), "double", f"nanvl({_DOUBLE}, CAST({{1}} AS DOUBLE))"),
    "coalesce": Function(("any…",), _common), **_each_as(_common, "scalar scalar…", "greatest least"),
    **_each_as(_common, "any any", "ifnull nvl", "coalesce({0}, {1})"),
    "nullif": Function(("scalar", "scalar"), _first),
    "nvl2": Function(("any", "any", "any"), lambda kinds: _common(kinds[1:])),
    "if": Function(("boolean", "any", "any"), lambda kinds: _common(kinds[1:])),
    **_each_as("boolean", "any", "isnull isnotnull"),
    **_each_as("int", "scalar…", "hash"), **_each_as("bigint", "scalar…", "xxhash64"),
    # JSON
    "get_json_object": Function(("text", "text"), "string", "weir_json_object({0}, {1})", ((1, _is_path),)),
    "json_array_length": Function(("text",), "int"), "json_object_keys": Function(("text",), "array<string>"),
    "to_json": Function(("nested",), "string", "to_json({0})"),
    "from_json": Function(("text", "text"), types.UNKNOWN, "from_json(weir_kept({0}, {1}), {1})",
                          ((1, lambda text: types.read_schema(text) is not None),)),
    # Lists and mappings
    "size": Function(("list",), "int"), "cardinality": Function(("list",), "int", "size({0})"),
    "array": Function(("any…",), _array), "array_contains": Function(("array", "scalar"), "boolean"),
    **_each_as(_element, "array", "array_max array_min"), **_each_as(_first, "array", "array_distinct sort_array"),
    "array_join": Function(("array", "text"), "string"), "flatten": Function(("array",), _element),
    "map_keys": Function(("map",), _list_of(spark_types.key)),
    "map_values": Function(("map",), _list_of(spark_types.element)),
    "element_at": Function(("map", "scalar"), _element, "try_element_at({0}, {1})"),
    "get": Function(("array", "int"), _element, "get({0}, {1})"),
    # Times; a slot's session is in UTC
    "to_timestamp": Function(("text", "text?"), "timestamp", "try_cast({0} AS TIMESTAMP)", ((1, _is_read_format),)),
    "to_date": Function(("text", "text?"), "date", "try_cast({0} AS DATE)", ((1, _is_read_format),)),
    **{name: Function(("time", "text"), "timestamp", "", ((1, _is_zone),))
       for name in ("to_utc_timestamp", "from_utc_timestamp")},
    "timestamp_millis": Function(("integer",), "timestamp", f"timestamp_millis({_MS})"),
    "timestamp_seconds": Function(("integer",), "timestamp", f"timestamp_seconds({_S})"),
    **_each_as("bigint", "time", "unix_millis unix_seconds", "@(CAST({0} AS TIMESTAMP))"),
    **_each_as("int", "time", "year month day dayofmonth dayofweek dayofyear quarter weekofyear hour minute second"),
    "date_format": Function(("time", "text"), "string", "", ((1, _is_time_format),)),
    "date_trunc": Function(("text", "time"), "timestamp", "date_trunc({0}, CAST({1} AS TIMESTAMP))",
                           ((0, _any_of("year", "quarter", "month", "week", "day", "hour", "minute", "second")),)),
    **_each_as("date", "date int", "date_add date_sub", f"@({{0}}, {_DAYS})"),
    "datediff": Function(("date", "date"), "int"),
}
HIGHER = frozenset({"transform", "filter", "exists", "forall", "aggregate"})  # take a function: `compiling`
BUILDERS = frozenset({"struct", "named_struct"})
PATTERNED = frozenset({"split", "regexp_replace", "regexp_extract"})  # what matching may take is told last
GENERATED = frozenset({"explode", "explode_outer", "posexplode", "posexplode_outer"})
NAMES = frozenset({*FUNCTIONS, *HIGHER, *BUILDERS, *GENERATED})
# What the text for Spark may call: these names, and what operators and functions are computed with.
CALLED = (NAMES - {"split", "regexp_replace"}) | {
    "weir_bounded", "weir_counted", "weir_kept", "weir_json_object",
    "weir_matches", "weir_like", "weir_split", "weir_replaced", "weir_extracted",
    "try_add", "try_subtract", "try_multiply", "try_divide", "try_mod",
    "try_element_at", "try_to_timestamp", "between"}

_KINDS: dict[str, tuple[Callable[[str], bool], str]] = {
    "any": (lambda kind: True, "a value"),
    "text": (lambda kind: kind == "string", "text"),
    "number": (types.is_number, "a number"),
    "integer": (lambda kind: kind in types.INTEGERS, "a whole number"),
    "int": (lambda kind: kind in types.INTEGERS[:3], "a whole number (int)"),
    "boolean": (lambda kind: kind == "boolean", "true or false"),
    "scalar": (lambda kind: not kind.startswith(("array<", "map<", "struct<")), "a single value"),
    "array": (lambda kind: kind.startswith("array<"), "a list"),
    "map": (lambda kind: kind.startswith("map<"), "a mapping"),
    "list": (lambda kind: kind.startswith(("array<", "map<")), "a list or a mapping"),
    "nested": (lambda kind: kind.startswith(("array<", "map<", "struct<")), "a list, a mapping or a record"),
    "time": (lambda kind: kind in ("timestamp", "date"), "a time"),
    "date": (lambda kind: kind == "date", "a date"),
}
_NESTED = frozenset({"array", "map", "list", "nested"})


def is_kind(kind: str, expected: str) -> bool:
    """True where a type is of the kind that a function takes. NULL is of each kind of single values, and of no kind of
    lists, mappings and records: what their elements or fields are, it does not say."""
    return (kind == types.VOID and expected not in _NESTED) or _KINDS[expected][0](kind)


def kind_in_words(expected: str) -> str:
    """The kind that a function takes, in words for a message."""
    return _KINDS[expected][1]


def expected_kinds(function: Function, count: int) -> list[str] | None:
    """The kind of each of so many arguments; None where the function does not take so many."""
    takes = list(function.takes)
    if takes and takes[-1].endswith("…"):
        last = takes.pop().removesuffix("…")
        if count < len(takes) + (1 if not takes else 0):
            return None
        return [*takes, *[last] * (count - len(takes))]
    least = sum(not kind.endswith("?") for kind in takes)
    return [kind.removesuffix("?") for kind in takes[:count]] if least <= count <= len(takes) else None
