"""Errors: what a user is told of them."""

import pytest

from scheduler.model.errors import WeirError


@pytest.mark.parametrize(("message", "remedy", "full_message"), [
    ("No slot is free", "Add one.", "No slot is free. Add one."),
    ("No slot is free.", "Add one", "No slot is free. Add one."),
    ("Is it running?", "", "Is it running?"),
])
def test_what_went_wrong_and_what_helps_are_sentences(message: str, remedy: str, full_message: str) -> None:
    assert WeirError(message, remedy=remedy).full_message == full_message
