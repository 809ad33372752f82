"""Histograms of latencies, as meters hold them: bucket ``b`` counts those of which floor(4·log2(ms + 1)) is ``b``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def percentile_ms(histogram: Mapping[int, int], share: float) -> float | None:
    """The latency that ``share`` of the counted events stay under; None where nothing was counted.

    Bucket ``b`` holds latencies of which floor(4·log2(ms + 1)) is ``b``; within a bucket events are spread evenly.
    """
    return percentiles_ms(histogram, (share,))[0]


def percentiles_ms(histogram: Mapping[int, int], shares: Sequence[float]) -> list[float | None]:
    """The same for several shares, in rising order: the histogram is gone through once for all of them."""
    percentiles: list[float | None] = [None] * len(shares)
    counted = sum(histogram.values())
    if not counted:
        return percentiles
    number, rank, counted_before = 0, shares[0] * counted, 0
    for bucket, count in sorted(histogram.items()):
        while count and counted_before + count >= rank:
            low, high = 2 ** (bucket / 4) - 1, 2 ** ((bucket + 1) / 4) - 1
            percentiles[number] = low + (high - low) * (rank - counted_before) / count
            number += 1
            if number == len(shares):
                return percentiles
            rank = shares[number] * counted
        counted_before += count
    return percentiles


def mean_ms(histogram: Mapping[int, int]) -> float | None:
    """The mean of the counted latencies, each taken to be in the middle of its bucket: within 10% of it and 1 ms."""
    counted = sum(histogram.values())
    if not counted:
        return None
    return sum(count * _middle_ms(bucket) for bucket, count in histogram.items()) / counted


def tail_ratio(histogram: Mapping[int, int], percentile: float) -> float | None:
    """The ratio of a percentile to the mean; None where nothing was counted."""
    mean, tail = mean_ms(histogram), percentile_ms(histogram, percentile / 100)
    return None if mean is None or tail is None else tail / mean


def _middle_ms(bucket: int) -> float:
    return (2 ** (bucket / 4) + 2 ** ((bucket + 1) / 4)) / 2 - 1
