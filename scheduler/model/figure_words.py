"""Figures in sentences."""

from __future__ import annotations

from decimal import Decimal


def in_digits(value: float, *, most: int = 3) -> str:
    """Three digits that count, written out however large or small the figure is.

    Examples
    --------
    >>> in_digits(1578.3), in_digits(0.04567), in_digits(2e9), in_digits(8e-5, most=2)
    ('1,580', '0.0457', '2,000,000,000', '0.00008')
    """
    return f"{Decimal(f'{value:.{most}g}'):,f}"
