"""What a fragment reads while its streams move to other channels: nothing is left behind, and nothing waits in vain."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.contracts.desired import Input
from workers.engine.agents.reconciling.input_selection import select_inputs

A1, A2, B1 = Input("a1.0", "a"), Input("a2.0", "a"), Input("b1.0", "b")


def now(wanted, before=(), *, ready=(), unread=(), between_batches=True):
    return select_inputs(
        wanted, before, ready={item.channel for item in ready}, unread={item.channel for item in unread},
        between_batches=between_batches)


def test_a_new_fragment_waits_for_all_that_it_reads():
    assert now([A1, A2], ready=[A1]) is None
    assert now([A1, A2], ready=[A1, A2]) == (A1, A2)
    assert now([]) == (), "a source reads nothing"


def test_one_that_has_run_goes_on_without_what_is_not_there_yet():
    assert now([A1, A2], [A1], ready=[A1]) == (A1,)
    assert now([A1, A2], [A1], ready=[A1, A2]) == (A1, A2)


def test_what_is_gone_is_read_to_its_end_first():
    assert now([A2], [A1], ready=[A1, A2], unread=[A1]) == (A2, A1)
    assert now([A2], [A1], ready=[A1, A2]) == (A2,)
    assert now([A2], [A1], ready=[A1], unread=[A1]) == (A1,)
    assert now([A2], [A1], ready=[A1]) is None, "a stream without a channel would be another query"


def test_nobody_waits_for_a_writer_that_leaves_before_it_began():
    leaving = Input("a1.0", "a", ending=True)
    assert now([leaving, A2], ready=[A2]) == (A2,)
    assert now([leaving, A2], ready=[A1, A2]) == (A1, A2)
    assert now([leaving], ready=[]) is None, "a stream needs a channel"
    assert now([leaving, A2], [A1], ready=[A2]) is None, "what it has read it goes on reading"


def test_a_batch_that_was_planned_is_done_with_the_channels_that_it_was_planned_with():
    assert now([A2], [A1], ready=[A1, A2], between_batches=False) == (A1,)
    assert now([A2], [A1], ready=[A2], between_batches=False) == (A2,), "it has lost its place"
    assert now([A2], [A1], ready=[], between_batches=False) is None


items = st.lists(
    st.sampled_from([Input(f"{task}{n}.0", task) for task in "ab" for n in range(3)]), unique=True, max_size=6)


@given(wanted=items, before=items, ready=items, unread=items, between_batches=st.booleans())
def test_whatever_changes_nothing_unread_is_dropped_and_every_stream_is_there(
        wanted, before, ready, unread, between_batches):
    wanted = sorted([*wanted, B1, A1], key=lambda item: item.task)
    wanted = list(dict.fromkeys(wanted))
    before = sorted(before, key=lambda item: item.task)
    unread = [item for item in unread if item in ready]
    selected = now(wanted, before, ready=ready, unread=unread, between_batches=between_batches)
    if selected is None:
        assert not {item.channel for item in wanted} <= {item.channel for item in ready}
        return
    assert set(selected) <= set(ready) and len(set(selected)) == len(selected)
    keeps = between_batches or set(before) <= set(ready)
    assert not keeps or {item for item in before if item in unread} <= set(selected)
    if between_batches:
        assert list(dict.fromkeys(item.task for item in selected)) == ["a", "b"], "the streams in their order"
        assert set(selected) <= set(wanted) | set(unread)
        if set(wanted) <= set(ready):
            assert set(wanted) <= set(selected)
    if before and not between_batches:
        assert selected == tuple(before) if keeps else set(selected) <= set(wanted)
