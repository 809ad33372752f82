"""Partitioning: how a stream is divided among the bundles of one reader. A value, by which its writer deals events out.

There are two ways: `Quota`, by weights, and `Ring`, by keys, which routes in the broker may be. A way is a class with
these properties, an entry of `partitioning_of`, and a ``Partitioning`` in Java.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from scheduler.model.ring import Ring


class Partitioning(Protocol):
    """Values that every partitioning gives."""

    @property
    def bundles(self) -> tuple[str, ...]:
        """All that have a part, also those that get nothing any more, sorted."""

    @property
    def served(self) -> tuple[str, ...]:
        """The bundles that get events, sorted."""

    @property
    def why_not(self) -> str:
        """The reason why a stream cannot be divided so; empty where it can."""

    def renamed(self, name_of: Callable[[str], str]) -> Partitioning:
        """The same for bundles of other names, or for the channels of their parts."""

    def document(self) -> dict[str, Any]:
        """The form in contracts, reports and the broker."""


class Quota(Mapping[str, float]):
    """Events are dealt out in proportion to weights, in an order that the number of a batch decides (Balinski and
    Young's Quota Method, `QuotaPartitioner.java`). A bundle of weight 0 is leaving: it gets none.

    Examples
    --------
    >>> quota = Quota({"f1-1": 0.75, "f1-0": 0.25, "f0-9": 0.0})
    >>> quota.bundles, quota.served
    (('f0-9', 'f1-0', 'f1-1'), ('f1-0', 'f1-1'))
    """

    __slots__ = ("_weights",)

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._weights = dict(weights)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Contracts have the weights alone, as they had before there was another way to divide."""
        return core_schema.no_info_after_validator_function(cls, handler.generate_schema(dict[str, float]))

    def __getitem__(self, bundle: str) -> float:
        return self._weights[bundle]

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)

    def __repr__(self) -> str:
        return f"Quota({self._weights!r})"

    @property
    def bundles(self) -> tuple[str, ...]:
        """All that have a weight, sorted."""
        return tuple(sorted(self._weights))

    @property
    def served(self) -> tuple[str, ...]:
        """The bundles whose weight is above 0, sorted."""
        return tuple(bundle for bundle in self.bundles if self._weights[bundle] > 0)

    @property
    def why_not(self) -> str:
        """A weight is negative or no number, or none is above 0."""
        if self.served and all(weight >= 0 and math.isfinite(weight) for weight in self._weights.values()):
            return ""
        return (f"cannot be divided by the weights {self._weights}: each must be 0 or more, and one of them more than "
                "0")

    def renamed(self, name_of: Callable[[str], str]) -> Quota:
        """The same weights for bundles of other names, in the order of the names before."""
        return Quota({name_of(bundle): float(self._weights[bundle]) for bundle in self.bundles})

    def document(self) -> dict[str, float]:
        """The weights by bundle."""
        return dict(self._weights)


def partitioning_of(document: Quota | Ring | Mapping[str, Any]) -> Quota | Ring:
    """The partitioning that a document says: the tokens of a ring, or weights by bundle."""
    if isinstance(document, Quota | Ring):
        return document
    return Ring(**document) if "tokens" in document else Quota(document)
