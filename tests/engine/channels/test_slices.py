"""A batch that is cut for several threads is the same batch, in the same order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workers.engine.channels.slices import Piece, cut

BLOCKS = st.lists(st.lists(st.integers(1, 7), min_size=1, max_size=6), max_size=4)


@given(blocks=BLOCKS, threads=st.integers(1, 9))
def test_slices_in_their_order_are_the_batch_in_its_order(blocks, threads) -> None:
    whole, sizes = [], []
    for channel, counts in enumerate(blocks):
        entries = [(f"{10 * channel + index + 1}-0", count) for index, count in enumerate(counts)]
        whole.append(Piece(f"c{channel}", "0-0", entries[-1][0]))
        sizes.append(entries)
    everything = [
        (piece.channel, entry, event)
        for piece, entries in zip(whole, sizes, strict=True) for entry, count in entries for event in range(count)
    ]
    slices = cut(whole, sizes, threads=threads)
    by_channel = {piece.channel: entries for piece, entries in zip(whole, sizes, strict=True)}
    found = [[event for piece in pieces for event in events_of(piece, by_channel[piece.channel])] for pieces in slices]
    assert [event for events in found for event in events] == everything
    lengths = [len(events) for events in found]
    assert len(slices) == max(1, min(threads, len(everything)))
    assert max(lengths) - min(lengths) <= 1


def events_of(piece: Piece, entries: list[tuple[str, int]]) -> list[tuple[str, str, int]]:
    """What a reader of the piece reads, by the definition of a piece."""
    order = ["0-0", *(entry for entry, _ in entries)]
    inside = entries[order.index(piece.start) : order.index(piece.end)]
    events = [(piece.channel, entry, event) for entry, count in inside for event in range(count)]
    return events[piece.skip : piece.skip + piece.take]
