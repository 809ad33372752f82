"""Compiling a SELECT against the columns of its input: the columns of its output, its faults, and its text for Spark.

Types are checked here, without Spark, so that the site can say what is wrong before anything runs; a test holds every
rule to Spark's analyser. What Spark computes never fails for a value: arithmetic that overflows, a division by zero, an
index that is not there and a cast that does not fit give null (Spark's ``try_`` functions).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from scheduler.model.bounds import SPARK_CHARACTERS
from scheduler.model.columns import STREAM_TYPES, Columns, nearest, require_short
from scheduler.model.sql_dialect import function_name, number

from .. import spark_types
from ..columns import decimal_of
from ..spark_text import identifier, literal
from . import types
from .arithmetic import kind_of, kind_together, largest, of_decimals
from .calling import called
from .functions import is_kind, kind_in_words
from .grammar import COMPARISONS, Item, Select, path, refused
from .growing import TextGrowth, bounds_for, size_of
from .matching import matched
from .typed_values import Typed, typed_number, wrong

_TRIED = {exp.Add: "try_add", exp.Sub: "try_subtract", exp.Mul: "try_multiply", exp.Mod: "try_mod"}
_SIGNS = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>"}


@dataclass(frozen=True, slots=True)
class CompiledSelect:
    """A query compiled for Spark: ``entries`` of a SELECT list, the condition, and the columns that come of it."""

    entries: tuple[str, ...]
    where: str | None
    columns: Columns


def compiled(select: Select, columns: Columns, *, task: str = "") -> CompiledSelect:
    """Check a SELECT against its input; ``task`` is the running task, for errors while it runs.

    Raises
    ------
    ColumnError
        A column is missing, or its type does not fit.
    InvalidConfig
        A function is unknown, or its arguments do not fit.
    """
    growth = TextGrowth(bounds_for(1), task)
    result = _compiled(select, columns, growth)
    if growth.count > 1 or growth.patterns > 1:  # they share what there is
        result = _compiled(select, columns, TextGrowth(bounds_for(growth.count), task, patterns=growth.patterns))
    return result


def _compiled(select: Select, columns: Columns, growth: TextGrowth) -> CompiledSelect:
    scope = NameScope(columns, select.aliases, growth)
    where = None
    if select.where is not None:
        condition = scope.typed(select.where)
        scope.expect(condition, "boolean", "The condition")
        where = condition.spark
    entries, kinds = [identifier(name) for name in STREAM_TYPES], dict[str, str | None](STREAM_TYPES)
    complete = True
    values: dict[int, Typed] = {
        index: scope.typed(item.expression) for index, item in enumerate(select.items)
        if not item.is_star and not item.is_generator and len(item.names) == 1}
    names = {index: select.items[index].names[0] for index in values}
    plain = {index for index in values if isinstance(select.items[index].expression, exp.Column)}
    starred = {identifier(name) for item in select.items if item.is_star for name in columns.types
               if name not in item.excepted}
    values = growth.of_event(values, names, plain=plain, starred=starred)
    for index, item in enumerate(select.items):
        if item.is_star:
            complete = complete and columns.complete
            for name in item.excepted:
                columns.require(name, parameter="query")
        for text, name, kind in _of_item(item, values.get(index), scope, columns):
            if name in STREAM_TYPES and text in ("", identifier(name)):
                continue
            _require_new(name, kinds)
            kinds[name] = kind
            entries += [text] if text else []
    return CompiledSelect(tuple(entries), where, Columns(kinds, complete))


def _of_item(item: Item, value: Typed | None, scope: NameScope, columns: Columns) -> list[tuple[str, str, str | None]]:
    """Text, name and type of what an entry gives; several that one text gives have the text once."""
    if item.is_star:
        return [(identifier(name), name, kind) for name, kind in columns.types.items() if name not in item.excepted]
    if item.is_generator:
        return _generated(item, scope)
    if value is None:
        raise refused(f"gives one value {len(item.names)} names")
    if value.kind == types.VOID:
        raise refused(f"gives nothing but NULL as {item.names[0]}", "Write CAST(NULL AS string), or another type.")
    name = item.names[0]
    plain = isinstance(item.expression, exp.Column) and value.spark == identifier(name)
    return [(value.spark if plain else f"{value.spark} AS {identifier(name)}", name, value.kind)]


def _generated(item: Item, scope: NameScope) -> list[tuple[str, str, str | None]]:
    name = function_name(item.expression)
    if len(item.expression.expressions) != 1:
        raise refused(f"calls {name} with {len(item.expression.expressions)} values", f"{name} takes one list.")
    value = scope.typed(item.expression.expressions[0])
    scope.expect(value, "list", name)
    value = scope.growth.exploded(value, name)
    if value.kind is None:
        kinds: list[str | None] = [None] * len(item.names)
    else:
        key = spark_types.key(value.kind)
        kinds = [*(["int"] if name.startswith("pos") else []), *([key] if key else []), spark_types.element(value.kind)]
    if len(kinds) != len(item.names):
        raise refused(f"gives what {name} makes {len(item.names)} names",
                      f"It makes {len(kinds)}: write {name}(…) AS ({', '.join('abc'[:len(kinds)])}).")
    names = ", ".join(map(identifier, item.names))
    text = f"{name}({value.spark}) AS " + (f"({names})" if len(item.names) > 1 else names)
    return [(text if index == 0 else "", column, kinds[index]) for index, column in enumerate(item.names)]


def _require_new(name: str, names: Mapping[str, object]) -> None:
    if name.lower() in STREAM_TYPES:
        raise refused(f"gives something else the name {name}", "Weir's own columns stay as they are.")
    if any(name.lower() == earlier.lower() for earlier in names):
        raise refused(f"gives two columns the name {name}",
                      f"Give one of them another name, or write * EXCEPT ({name}).")


class NameScope:
    """Names that expressions may use: columns of the input, and variables of functions within functions."""

    def __init__(
        self, columns: Columns, aliases: frozenset[str], growth: TextGrowth,
        variables: Mapping[str, str | None] | None = None,
    ) -> None:
        self.growth = growth
        self.columns, self.aliases, self.variables = columns, aliases, dict(variables or {})
        self._all_known = columns.complete and None not in columns.types.values()

    def within(self, variables: Mapping[str, str | None]) -> NameScope:
        """The scope inside of a function's body."""
        return NameScope(self.columns, self.aliases, self.growth, {**self.variables, **variables})

    def differing_in_case(self, name: str) -> str | None:
        """A column or variable of the same name in another case; None where there is none."""
        others = [spelling for spelling in (*self.columns, *self.variables) if spelling != name]
        return next((spelling for spelling in others if spelling.lower() == name.lower()), None)

    def expect(self, value: Typed, expected: str, label: str) -> None:
        """Raise ``WrongColumnType`` where a value is of another kind."""
        if value.kind is not None and not is_kind(value.kind, expected):
            raise wrong(f"{label} needs {kind_in_words(expected)}, and {value.spark[:80]} is {value.kind}.")

    def typed(self, node: exp.Expression) -> Typed:
        """An expression's type, and its text for Spark.

        Raises
        ------
        WrongColumnType
            It works on what it cannot, or all columns have known types, as they have where it runs, and it has none:
            what a field of it would be, nobody has checked.
        InvalidConfig
            It is none that a query may have, or its text is too long.
        """
        method = next((method for kinds, method in _METHODS if isinstance(node, kinds)), None)
        if method is None:
            raise refused(f"has {node.key} in it")
        value = method(self, node)
        if value.kind is None and self._all_known:
            raise wrong(f"{value.spark[:80]} has no type.", "Write CAST(NULL AS string), or another type, for NULL.")
        require_short(value.kind or "", parameter="query")
        if len(value.spark) > SPARK_CHARACTERS.most:  # some functions have their operands in it several times
            raise refused(f"has more than {SPARK_CHARACTERS.most:,} characters for Spark",
                          "Let a sql task before it give parts of it names.")
        return value

    def _column(self, node: exp.Column) -> Typed:
        parts = path(node, self.aliases)
        if parts[0] in self.variables:
            value = Typed(self.variables[parts[0]], identifier(parts[0]))
        else:
            name = self._named(parts[0])
            value = Typed(self.columns.type_of(name), identifier(name))
        for field in parts[1:]:
            value = self._field(value, field)
        return value

    def _named(self, name: str) -> str:
        """The column of that name, in any case of letters, as for Spark."""
        if name in self.columns:
            return name
        alike = [column for column in self.columns if column.lower() == name.lower()]
        if len(alike) == 1:
            return alike[0]
        self.columns.require(name, parameter="query")
        return name

    def _field(self, value: Typed, name: str) -> Typed:
        if value.kind is None:
            return Typed(None, f"{value.spark}.{identifier(name)}")
        fields = spark_types.fields(value.kind)
        if name not in fields:
            near = nearest(name, fields)
            raise wrong(f"{value.spark[:60]} is {value.kind[:80]}, which has no field {name}.",
                        f"Did you mean {near}?" if near else "")
        return Typed(fields[name], f"{value.spark}.{identifier(name)}")

    def _dot(self, node: exp.Dot) -> Typed:
        return self._field(self.typed(node.this), node.expression.name)

    def _variable(self, node: exp.Identifier) -> Typed:
        if node.name not in self.variables:
            return self._column(exp.Column(this=node.copy()))
        return Typed(self.variables[node.name], identifier(node.name))

    def _literal(self, node: exp.Expression) -> Typed:
        if isinstance(node, exp.Boolean):
            return Typed("boolean", "true" if node.this else "false")
        if isinstance(node, exp.Null):
            return Typed(types.VOID, "NULL")
        if node.is_string:
            return Typed("string", literal(node.this), len(node.this.encode()))
        return typed_number(number(node))

    def _negative(self, node: exp.Neg) -> Typed:
        if (value := number(node)) is not None:
            return typed_number(value)
        inner = self.typed(node.this)
        self.expect(inner, "number", "A minus")
        inner = inner.cast(types.arithmetic(inner.kind))
        if inner.kind and decimal_of(inner.kind):
            return of_decimals("-", Typed("decimal(1,0)", "CAST(0 AS DECIMAL(1,0))"), inner)
        return Typed(inner.kind, f"try_multiply({inner.spark}, -1)")

    def _not(self, node: exp.Not) -> Typed:
        inner = self.typed(node.this)
        self.expect(inner, "boolean", "NOT")
        return Typed("boolean", f"(NOT {inner.spark})")

    def _connected(self, node: exp.Expression) -> Typed:
        word = "AND" if isinstance(node, exp.And) else "OR"
        sides = [self.typed(node.this), self.typed(node.expression)]
        for side in sides:
            self.expect(side, "boolean", word)
        return Typed("boolean", f"({sides[0].spark} {word} {sides[1].spark})")

    def alike(self, values: Sequence[Typed], label: str) -> list[Typed]:
        """Values as one type; raises ``WrongColumnType`` where they have none in common."""
        common: str | None = types.VOID
        for value in values:
            try:
                common = types.common_kind(common, value.kind)
            except ValueError:
                raise wrong(f"{label} needs values of one type; {value.spark[:60]} is {value.kind}, the others are "
                            f"{common}.") from None
            if common is None:
                return list(values)
        return [value.cast(common) for value in values]

    def _compared(self, node: exp.Expression) -> Typed:
        sign = _SIGNS[type(node)]
        left, right = self.alike([self.typed(node.this), self.typed(node.expression)], f"The comparison {sign}")
        nested = [side for side in (left, right) if side.kind and not is_kind(side.kind, "scalar")]
        if nested and (sign not in ("=", "<>", "<=>") or "map<" in str(nested[0].kind)):
            raise wrong(f"{nested[0].spark[:60]} is {nested[0].kind}, which cannot be compared by {sign}.")
        return Typed("boolean", f"({left.spark} {sign} {right.spark})")

    def _calculated(self, node: exp.Expression) -> Typed:
        sides = [self.typed(node.this), self.typed(node.expression)]
        for side in sides:
            self.expect(side, "number", "Arithmetic")
        kinds = [types.arithmetic(side.kind) if side.kind != types.VOID else types.VOID for side in sides]
        common = "double" if isinstance(node, exp.Div) else kind_together(*kinds)
        if "decimal" in {kind.partition("(")[0] for kind in kinds if kind} and not isinstance(node, exp.Div):
            if isinstance(node, exp.IntDiv):
                raise wrong("DIV works on whole numbers, and one of these is a decimal.",
                            "CAST(… AS bigint) leaves out what is behind the point; / gives a double.")
            if "double" not in kinds and None not in kinds and types.VOID not in kinds:
                return of_decimals({exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Mod: "%"}[type(node)], *sides)
        if isinstance(node, exp.Div | exp.IntDiv):
            common = "double" if isinstance(node, exp.Div) else "bigint"
        left, right = (side.cast(common) for side in sides)
        if isinstance(node, exp.Div):
            return Typed("double", f"try_divide({left.spark}, {right.spark})")
        if isinstance(node, exp.IntDiv):
            return Typed("bigint", f"CASE WHEN {right.spark} = -1 THEN try_multiply({left.spark}, -1) "
                                   f"WHEN {right.spark} <> 0 THEN {left.spark} DIV {right.spark} END")
        return Typed(common, f"{_TRIED[type(node)]}({left.spark}, {right.spark})")

    def _text(self, node: exp.DPipe) -> Typed:
        sides = [self.typed(node.this), self.typed(node.expression)]
        for side in sides:
            self.expect(side, "scalar", "||")
        sides, most = self.growth.size_together(sides, "||")
        return Typed("string", "concat({})".format(", ".join(f"CAST({side.spark} AS STRING)" for side in sides)), most)

    def _is(self, node: exp.Is) -> Typed:
        value, right = self.typed(node.this), node.expression
        if isinstance(right, exp.Boolean):
            self.expect(value, "boolean", "IS")
        elif not isinstance(right, exp.Null):
            raise refused(f"has IS {right.sql()[:40]}", "Write IS NULL, IS TRUE or IS FALSE.")
        return Typed("boolean", f"({value.spark} IS {self._literal(right).spark.upper()})")

    def _in(self, node: exp.In) -> Typed:
        if not node.expressions:
            raise refused("has IN without values", "Write IN (value, …).")
        values = self.alike([self.typed(node.this), *map(self.typed, node.expressions)], "IN")
        self.expect(values[0], "scalar", "IN")
        return Typed("boolean", f"({values[0].spark} IN ({', '.join(value.spark for value in values[1:])}))")

    def _between(self, node: exp.Between) -> Typed:
        value, low, high = self.alike(
            [self.typed(node.this), self.typed(node.args["low"]), self.typed(node.args["high"])], "BETWEEN")
        return Typed("boolean", f"({value.spark} >= {low.spark} AND {value.spark} <= {high.spark})")

    def _case(self, node: exp.Case) -> Typed:
        conditions = []
        for branch in node.args["ifs"]:
            if node.this is not None:
                conditions.append(self._compared(exp.EQ(this=node.this.copy(), expression=branch.this.copy())))
            else:
                conditions.append(self.typed(branch.this))
                self.expect(conditions[-1], "boolean", "CASE WHEN")
        results = [self.typed(branch.args["true"]) for branch in node.args["ifs"]]
        if (default := node.args.get("default")) is not None:
            results.append(self.typed(default))
        results = self.alike(results, "CASE")
        pairs = zip(conditions, results, strict=False)
        branches = " ".join(f"WHEN {condition.spark} THEN {result.spark}" for condition, result in pairs)
        otherwise = f" ELSE {results[-1].spark}" if default is not None else ""
        return Typed(kind_of(results), f"CASE {branches}{otherwise} END", largest(results))

    def _cast(self, node: exp.Expression) -> Typed:
        value, kind = self.typed(node.this), types.read_type(node.args["to"])
        if kind == "float":
            kind = "double"
        if kind not in types.CASTS and not decimal_of(kind or ""):
            raise refused(f"casts to {node.args['to'].sql()[:60]}",
                          f"It may cast to {', '.join(sorted(types.CASTS))}, decimal(p,s).")
        if not types.may_cast(value.kind, kind):
            raise wrong(f"{value.spark[:80]} is {value.kind}, which cannot be cast to {kind}.")
        most = size_of(value) if kind == "string" else None
        if kind == "string" and value.kind is not None and not is_kind(value.kind, "scalar"):
            value = self.growth.within(value, "CAST", times=4)
        text = value.spark
        if decimal_of(kind) and value.kind in (None, "string"):
            text = f"regexp_extract({text}, {literal(_DECIMAL)}, 0)"
        return Typed(kind, f"TRY_CAST({text} AS {kind.upper()})", most)

    def _element(self, node: exp.Bracket) -> Typed:
        value, [index] = self.typed(node.this), [*node.expressions][:1]
        if isinstance(index, exp.Literal) and index.is_string and (value.kind or "").startswith("struct<"):
            return self._field(value, index.this)
        index_value = self.typed(index)
        if value.kind is None:
            return Typed(None, f"{value.spark}[{index_value.spark}]")
        if value.kind.startswith("map<"):
            [index_value] = self.alike([Typed(spark_types.key(value.kind), ""), index_value], "A mapping's key")[1:]
            return Typed(spark_types.element(value.kind), f"try_element_at({value.spark}, {index_value.spark})")
        self.expect(value, "array", "[…]")
        self.expect(index_value, "int", "A place in a list")
        return Typed(spark_types.element(value.kind), f"get({value.spark}, {index_value.spark})")

_DECIMAL = r"^\s*[+-]?[0-9.]{1,1000}([eE][+-]?[0-9]{1,9})?\s*$"  # Java takes a minute for a million digits
_METHODS = (
    (exp.Column, NameScope._column), (exp.Identifier, NameScope._variable), (exp.Dot, NameScope._dot),
    ((exp.Literal, exp.Boolean, exp.Null), NameScope._literal), (exp.Neg, NameScope._negative),
    (exp.Not, NameScope._not),
    ((exp.And, exp.Or), NameScope._connected), (COMPARISONS, NameScope._compared), (exp.DPipe, NameScope._text),
    ((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod), NameScope._calculated),
    ((exp.Like, exp.ILike, exp.RegexpLike), matched), (exp.Is, NameScope._is), (exp.In, NameScope._in),
    (exp.Between, NameScope._between), (exp.Case, NameScope._case), ((exp.Cast, exp.TryCast), NameScope._cast),
    (exp.Bracket, NameScope._element), (exp.Anonymous, called),
    (exp.Paren, lambda scope, node: scope.typed(node.this)),
)
