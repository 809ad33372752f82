"""Patterns in conditions: RLIKE, LIKE and ILIKE, each matched in as many steps as a query may take for one event.

Java matches by backtracking. Patterns whose ways multiply are refused as they are read (`safe_patterns`), but the rest
may still take a text's length to the fourth power, and a text has no bound. So at run time ``BoundedPattern.java``
counts the characters that are looked at. LIKE with one % before another is such a pattern to Spark, which tries all
places of each; here each part is looked for once.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from scheduler.model.bounds import PATTERN_CHARACTERS

from ..spark_text import literal
from .functions import PATTERN_REMEDY, is_pattern
from .grammar import refused
from .typed_values import Typed

_LIKE_REMEDY = f"Write no backslashes, and {PATTERN_CHARACTERS.most:,} characters at the most."


def matched(scope: Any, node: exp.Like | exp.ILike | exp.RegexpLike) -> Typed:
    """A comparison of a text with a pattern that is written out."""
    word = {exp.Like: "LIKE", exp.ILike: "ILIKE", exp.RegexpLike: "RLIKE"}[type(node)]
    value, pattern = scope.typed(node.this), node.expression
    scope.expect(value, "text", word)
    if not isinstance(pattern, exp.Literal) or not pattern.is_string:
        raise refused(f"has {word} with a pattern that is not written out", f"Write {word} 'pattern'.")
    written = pattern.this
    if not (is_pattern(written) if word == "RLIKE" else _is_like_pattern(written)):
        raise refused(f"has the pattern “{written[:60]}”, which {word} does not take",
                      PATTERN_REMEDY if word == "RLIKE" else _LIKE_REMEDY)
    text, by = value.spark, literal(written)
    if word != "RLIKE" and written.rstrip("%").count("%") <= 1:
        return Typed("boolean", f"({text} {word} {by})")
    if word == "ILIKE":
        text, by = f"lower({text})", f"lower({by})"
    function = "weir_matches" if word == "RLIKE" else "weir_like"
    return Typed("boolean", f"{function}({text}, {by}, {scope.growth.matching(word, in_list=bool(scope.variables))})")


def _is_like_pattern(text: str) -> bool:
    return "\\" not in text and len(text) <= PATTERN_CHARACTERS.most
