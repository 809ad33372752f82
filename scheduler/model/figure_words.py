"""Figures in sentences."""

from __future__ import annotations


def in_digits(value: float) -> str:
    """Three digits that count, written out however large the figure is.

    Examples
    --------
    >>> in_digits(1578.3), in_digits(0.04567), in_digits(2e9)
    ('1,580', '0.0457', '2,000,000,000')
    """
    return f"{float(f'{value:.3g}'):,.15g}"
