"""Figures in sentences."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.figure_words import in_digits


@given(st.floats(1e-4, 1e12))
def test_three_digits_count_and_none_is_hidden_in_an_exponent(value: float) -> None:
    text = in_digits(value)
    assert "e" not in text
    assert abs(float(text.replace(",", "")) - value) <= 0.005001 * value
