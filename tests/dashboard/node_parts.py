"""A node's part of the estate, with nothing read beside it."""

from __future__ import annotations

from dashboard.operations.estate_store.estate_loader import load_part_with
from scheduler.model.estate import Estate


def load_part_of(node: str) -> Estate:
    """A node's fragments with their tasks and their direct upstream and downstream fragments."""
    return load_part_with(node, lambda _: None)[0]
