"""The ``goals`` of a document: read with places; the schema says what is wrong with each of them by itself."""

from __future__ import annotations

from .dataflow_goals import DataflowGoals
from .positions import DocumentNode, Problems


def read_goals(node: DocumentNode | None, problems: Problems) -> DataflowGoals | None:
    """The goals that a document states; None where it states none or wrong ones, which are reported."""
    if node is None or not node.is_mapping:
        return None
    stated = {str(key): entry.value for key, entry in node.value.items() if entry.value is not None}
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in stated.values()):
        return None
    for less, more in (("least_per_hour", "most_per_hour"), ("tolerance", "throughput")):
        if less in stated and more in stated and stated[less] >= stated[more]:
            problems.add(
                "out_of_range", node.value[less].position, f"Of the goals {less} is not less than {more}.",
                f"Write less than {stated[more]:g}.")
            return None
    try:
        return DataflowGoals(**{key: float(value) for key, value in stated.items()})
    except (TypeError, ValueError, OverflowError):
        return None
