"""Random profiles and allocations, and one checker of what every mapping promises; for the tests of scheduling."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from operator import itemgetter

from hypothesis import strategies as st

from scheduler.allocation.lsa import allocate_lsa
from scheduler.allocation.mba import allocate_mba
from scheduler.model.allocated import Allocation
from scheduler.model.fragment import Slot
from scheduler.model.placement import Placement
from scheduler.model.prices import VmSize
from scheduler.model.profile import Point, Profile
from scheduler.model.resources import Catalogue, Node, Supply, TakenShare

SIZES = Catalogue((VmSize("D1", 1, 0.1), VmSize("D2", 2, 0.2), VmSize("D3", 4, 0.4)), slot_hour=0.05)
BUY = Supply(catalogue=SIZES)
EPSILON = 1e-6


@st.composite
def profiles(draw: st.DrawFn, *, name: str = "task", idle: bool = False) -> Profile:
    """A profile of one to four points, one thread among them; peaks go up and down.

    With ``idle`` queries may take something without events, which the published algorithms know nothing of.
    """
    counts = [1, *draw(st.lists(st.integers(2, 60), max_size=3, unique=True))]
    share = st.floats(0, 1, allow_nan=False).map(lambda value: round(value, 3))
    points = []
    for threads in counts:
        cpu, memory = draw(share), draw(share)
        part = draw(st.sampled_from((0.0, 0.3, 1.0))) if idle else 0.0
        events = draw(st.none() | st.just((1 - part) * cpu)) if idle else None
        often = 1.0 if events is None else draw(st.sampled_from((1.0, max(0.2, part * cpu))))  # no more than all of it
        points.append(Point(
            threads, draw(st.integers(1, 400)), cpu, memory, part * cpu / often, part * memory, events))
    return Profile(name, tuple(points))


@st.composite
def allocations(draw: st.DrawFn, *, tasks: int = 6, most: int = 4) -> Allocation:
    """An allocation of either kind of up to so many tasks, whose rates are up to ``most`` times their peaks."""
    names = [f"t{number}" for number in range(draw(st.integers(1, tasks)))]
    idle = draw(st.booleans())
    of = {name: draw(profiles(name=name, idle=idle)) for name in names}
    rates = {name: of[name].one_thread.rate_per_s * draw(st.integers(0, 4 * most)) / 4 for name in names}
    return draw(st.sampled_from([allocate_lsa, allocate_mba]))(rates, of)


@st.composite
def supplies(draw: st.DrawFn, *, shared: bool = False) -> Supply:
    """Some free slots, of which others have taken a part of some, and machines to buy."""
    free = tuple(
        Node(f"n{number}", tuple(Slot(f"n{number}", index) for index in range(draw(st.integers(1, 3)))),
             rack=draw(st.sampled_from(["", "left"])))
        for number in range(draw(st.integers(0, 2)))
    )
    share = st.sampled_from([0.05, 0.3, 0.5, 0.85])
    taken = {
        slot: TakenShare(draw(share), draw(share)) for node in free for slot in node.slots if shared
        and draw(st.booleans())}
    return Supply(free, SIZES, taken=taken)


def chain(allocation: Allocation) -> dict[tuple[str, str], float]:
    """A stream from each task to the next, each with more events than the one before."""
    names = list(allocation.tasks)
    return {pair: 10.0 * (number + 1) for number, pair in enumerate(pairwise(names))}


def check_placed(placement: Placement, allocation: Allocation, supply: Supply) -> None:
    """Every thread placed once, on one of the slots asked for; more only where nothing fits, in the supply's order.

    The exact mapping chooses among the free ones; whatever is bought is the first of it. That it asks for no more than
    SAM, and for the fewest, is for tests of its own.
    """
    assert {task: len(positions) for task, positions in placement.threads.items()} == {
        name: task.threads for name, task in allocation.tasks.items()}
    assert all(0 <= position < len(placement.slots) for positions in placement.threads.values()
        for position in positions)
    assert len(set(placement.slots)) == len(placement.slots)
    assert placement.taken == {
        position: supply.taken[slot] for position, slot in enumerate(placement.slots) if slot in supply.taken}
    if placement.algorithm != "RSM":  # it counts with the CPU of all slots of a node
        assert set(placement.taken) <= {position for positions in placement.threads.values() for position in positions}
    if placement.algorithm == "exact":
        free = [slot for node in supply.free for slot in node.slots if slot not in supply.taken]
        count = len(placement.slots)
        offered = free if count <= len(free) else supply.slots(count)
        assert placement.slots == tuple(slot for slot in offered if slot in placement.slots)
        assert placement.slots_bound.reached == len(placement.held)
    else:
        # Those of others in which nothing fits are left out, and of a schedule all that hold nothing.
        left_out = len(supply.taken) + len(placement.empty)
        first = [slot for slot in supply.slots(len(placement.slots) + left_out) if slot in placement.slots]
        assert tuple(first) == placement.slots
        check_extra(placement, allocation)
    assert placement.allocated_slots == allocation.slots


def check_extra(placement: Placement, allocation: Allocation) -> None:
    """Slots beyond those asked for come one by one, each for what no slot before it had room for when it was placed.

    Where others have part of an extra slot it may have been opened in vain; there is nothing to be said of it.
    """
    untaken = [position for position in range(len(placement.slots)) if position not in placement.taken]
    extra = [position for position in untaken if position >= placement.allocated_slots]
    free = [[1.0, 1.0] for _ in placement.slots]
    for position, taken in placement.taken.items():
        free[position] = [1.0 - taken.cpu, 1.0 - taken.memory]
    begun: set[int] = set()
    for position, cpu, memory, full in _in_order(placement, allocation):
        if extra and position >= extra[0] and position not in begun | placement.taken.keys():
            assert position == extra.pop(0), "they are opened one by one"
            if full:
                assert begun.issuperset(before for before in untaken if before < position), "a slot is empty"
            else:
                assert not _has_room(placement, free[:position], cpu + EPSILON, memory + EPSILON), "there is room"
        begun.add(position)
        free[position][0] -= cpu
        free[position][1] -= memory
    assert not extra, "each extra slot is for something"


def _in_order(placement: Placement, allocation: Allocation) -> Iterator[tuple[int, float, float, bool]]:
    """What was placed, in turn: its position, CPU and memory, and whether it needs a slot to itself.

    DSM goes task by task. RSM takes a thread of each in turn, and SAM a full bundle, in the end all others of the task.
    """
    placed: list[tuple[int, tuple[int, float, float, bool]]] = []
    for name, task in allocation.tasks.items():
        places = placement.threads[name]
        if placement.algorithm == "SAM":
            units = [bundle for bundle in task.bundles for _ in range(bundle.count)]
            full, ends = sum(unit.full for unit in units), accumulate(unit.threads for unit in units)
            placed += [(min(turn, full), (places[end - 1], unit.cpu, unit.memory, unit.full))
                      for turn, (unit, end) in enumerate(zip(units, ends, strict=True))]
        else:
            placed += [(turn if placement.algorithm == "RSM" else 0,
                       (position, task.cpu / task.threads, task.memory / task.threads, False))
                      for turn, position in enumerate(places)]
    yield from (room for _, room in sorted(placed, key=itemgetter(0)))


def _has_room(placement: Placement, free: Sequence[Sequence[float]], cpu: float, memory: float) -> bool:
    """Whether one of these slots takes so much as its algorithm counts: DSM by memory, RSM with all CPU of its node."""
    if placement.algorithm == "SAM":
        return any(left[0] >= cpu and left[1] >= memory for left in free)
    of_node: dict[str, list[Sequence[float]]] = {}
    for slot, room in zip(placement.slots, free, strict=False):
        of_node.setdefault(slot.node, []).append(room)
    return any(
        max(slot[1] for slot in slots) >= memory and (placement.algorithm == "DSM"
            or sum(slot[0] for slot in slots) >= cpu)
        for slots in of_node.values())


def check_thread_shares(placement: Placement, allocation: Allocation, *, cpu: bool) -> None:
    """By each thread's share of its task: no slot over its memory and, with ``cpu``, no node over its CPU."""
    memory: Counter[int] = Counter({position: taken.memory for position, taken in placement.taken.items()})
    of_node: Counter[str] = Counter()
    for position, taken in placement.taken.items():
        of_node[placement.slots[position].node] += taken.cpu
    for name, positions in placement.threads.items():
        task = allocation.tasks[name]
        for position in positions:
            memory[position] += task.memory / task.threads
            of_node[placement.slots[position].node] += task.cpu / task.threads
    assert all(taken <= 1 + EPSILON for taken in memory.values())
    slots = Counter(slot.node for slot in placement.slots)
    assert not cpu or all(taken <= slots[node] + EPSILON for node, taken in of_node.items())


def check_bundles(placement: Placement, allocation: Allocation) -> None:
    """Bundles whole, full ones alone, and by the bundles' needs no slot over its CPU or memory."""
    cpu, memory = defaultdict(float), defaultdict(float)
    tenants: Counter[int] = Counter()
    for position, taken in placement.taken.items():
        cpu[position], memory[position] = taken.cpu, taken.memory
        tenants[position] = 1
    alone = set()
    for name, task in allocation.tasks.items():
        positions = list(placement.threads[name])
        for bundle in task.bundles:
            for _ in range(bundle.count):
                bundle_positions, positions = positions[: bundle.threads], positions[bundle.threads:]
                assert len(set(bundle_positions)) == 1, f"a bundle of {name} is torn apart"
                cpu[bundle_positions[0]] += bundle.cpu
                memory[bundle_positions[0]] += bundle.memory
                tenants[bundle_positions[0]] += 1
                alone |= {bundle_positions[0]} if bundle.full else set()
        assert not positions
    assert all(taken <= 1 + EPSILON for taken in (*cpu.values(), *memory.values()))
    assert all(tenants[position] == 1 for position in alone)
