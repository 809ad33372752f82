"""Cells that a spreadsheet takes for formulas in a file that it opens."""

from __future__ import annotations

from typing import Any

# Tab, CR and LF are passed over by some; full-width signs are taken as the plain ones where East Asian text is typed.
FIRST_SIGNS = tuple("=+-@\t\r\n＝＋－＠")


def is_formula(text: str) -> bool:
    """True if a spreadsheet may compute this cell: it begins as a formula does, and is no plain number.

    >>> is_formula("=1+1"), is_formula("＝1+1"), is_formula("-1.5"), is_formula("a=1")
    (True, True, False, False)
    """
    return text.startswith(FIRST_SIGNS) and not _is_number(text)


def harmless(value: Any) -> Any:
    """The cell, marked as text where a spreadsheet would take it for a formula.

    >>> harmless("@SUM(A1)"), harmless("-1.5"), harmless(3)
    ("'@SUM(A1)", '-1.5', 3)
    """
    return f"'{value}" if isinstance(value, str) and is_formula(value) else value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
