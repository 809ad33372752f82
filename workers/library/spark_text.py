"""Text for Spark, built and never joined: names, constants and schemas, each written by the one function for it.

Spark reads text in two places, as an expression and as a schema. A name or a constant that is put into either as it is
can end where it pleases and go on as any expression, so nothing else in the library writes one (a test holds that).
"""

from __future__ import annotations

from collections.abc import Mapping

from .config import InvalidConfig
from .spark_types import MOST_CHARACTERS, arguments, is_name, is_type, named_parts


def identifier(name: str) -> str:
    """A name between backticks, those within it doubled.

    Raises
    ------
    InvalidConfig
        It is empty, longer than 255 characters, or holds a control character, a line end or ``${``, which Spark would
        replace by a setting or a variable of the environment before it reads the text.

    Examples
    --------
    >>> identifier("temp")
    '`temp`'
    >>> identifier("a` || `b")
    '`a`` || ``b`'
    """
    if not is_name(name):
        raise InvalidConfig(
            f"A column or field cannot have the name {name[:60]!r}.",
            remedy="Give it a name of letters, digits and underscores in a task before.", name=name[:MOST_CHARACTERS])
    return "`{}`".format(name.replace("`", "``"))


def literal(text: str) -> str:
    """A constant text between quotes, of which Spark reads the very characters.

    Raises
    ------
    InvalidConfig
        It holds half of a character (a surrogate), which no encoding of text has.

    Examples
    --------
    >>> print(literal("it's ${env:HOME}"))
    'it\\'s $\\u007benv:HOME}'
    """
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidConfig("A text has half of a character in it.", remedy="Write the character itself.")
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "$\\u007b")
    return f"'{escaped}'"


def type_text(kind: str) -> str:
    """A type as a schema has it: Spark's ``simpleString``, with the fields of structs quoted.

    Raises
    ------
    InvalidConfig
        It is no type, or a field's name is not plain.

    Examples
    --------
    >>> type_text("array<struct<wind-speed:double>>")
    'array<struct<`wind-speed`:double>>'
    """
    if not is_type(kind):
        raise InvalidConfig(f"{kind[:60]!r} is no type of a column.",
                            remedy="Write one such as string, double, bigint or array<double>.")
    return _written(kind)


def _written(kind: str) -> str:
    word, opened, inside = kind.partition("<")
    if not opened:
        return kind
    if word == "struct":
        parts = (f"{identifier(name)}:{_written(inner)}" for name, inner in named_parts(kind))
        return f"struct<{','.join(parts)}>"
    return f"{word}<{','.join(map(_written, arguments(inside[:-1])))}>"


def columns_ddl(types: Mapping[str, str]) -> str:
    """The schema (DDL) of columns: types by name, in their order.

    Examples
    --------
    >>> columns_ddl({"room": "string", "celsius": "double"})
    '`room` string, `celsius` double'
    """
    return ", ".join(f"{identifier(name)} {type_text(kind)}" for name, kind in types.items())
