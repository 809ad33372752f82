"""Two nodes beside one broker, as two machines would be: agents, slots and data folders of their own, one slot each.

All on this machine; each node reaches the broker by a wire that can be cut.
"""

import json
import random
import signal
from contextlib import ExitStack

import pytest
import redis

from scheduler.applying import apply_plan
from scheduler.assignment import SlotAssigner
from scheduler.model.documents import read_document
from scheduler.model.errors import NotEnactable
from scheduler.model.estate import Estate
from scheduler.model.prices import Prices
from scheduler.model.profile import Point, Profile, Profiles
from scheduler.model.resources import Node, Supply
from scheduler.planning import plan_removal, plan_submission
from scheduler.rescheduling import bound, plan_schedule, schedulable
from scheduler.reuse.division import WantedBundle, divided_anew
from scheduler.scheduling import prepare, schedule
from scheduler.step_kinds import EnactmentEvidence, steps_done
from workers.engine import desired_publishing
from workers.engine.channels import keys
from workers.engine.observed import read_reports

from .flow import Flow, bundle
from .rig import Hosts, Rig, catalogue, running_agent
from .test_outputs_sacred import EVENTS, committed_offsets, recorded
from .wire import Wire

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.long, pytest.mark.timeout(900)]

NODES = ("n1", "n2")
ENDS = ("n1/0", "n2/0")
CITY = """
name: {name}
visibility: private
tasks:
  - {{id: city, type: replay, config: {{path: sys.senml, format: senml}}}}
  - {{id: parse, type: senml_parse, config: {{schema: urban}}}}
  - {{id: warm, type: range_filter, config: {{ranges: {{temperature: [-12.5, 43.1]}}}}}}
  - {{id: out, type: output, config: {{name: warm, keep_events: 1000000}}}}
streams:
  - {{from: city, to: parse}}
  - {{from: parse, to: warm}}
  - {{from: warm, to: out}}
rates: {{city: 200}}
"""
COUNTED = """
name: counted
tasks:
  - {id: count, type: numbers}
  - {id: python, type: in_python, config: {tag: counted}}
  - {id: shift, type: shift, config: {by: 1000000}}
  - {id: out, type: output, config: {name: out, keep_events: 1000000}}
streams:
  - {from: count, to: python}
  - {from: python, to: shift}
  - {from: shift, to: out}
rates: {count: 200}
"""
SUMMED = """
name: summed
tasks:
  - {id: count, type: numbers}
  - {id: python, type: in_python, config: {tag: summed}}
  - {id: out, type: output, config: {name: out}}
  - {id: sum, type: total, config: {name: sum}}
  - {id: sums, type: output, config: {name: sums, keep_events: 1000000}}
streams:
  - {from: count, to: python}
  - {from: python, to: out}
  - {from: count, to: sum}
  - {from: sum, to: sums}
rates: {count: 200}
"""
BY = 1_000_000
# By these a thread sustains less than comes, so that LSA asks for two, and DSM deals them to both nodes in turn.
PROFILES = Profiles([
    Profile(name, (Point(1, rate_per_s, cpu, 0.05),)) for name, rate_per_s, cpu in (
        ("senml_parse", 150.0, 0.5), ("range_filter", 750.0, 0.5), ("in_python", 150.0, 0.5), ("shift", 150.0, 0.5),
        ("total", 400.0, 0.6))])


@pytest.fixture(scope="module")
def hosts(broker_url, tmp_path_factory, test_types):
    """Two agents with a wire each; recordings are on the first node alone."""
    plugin_folder, types = test_types
    replay = tmp_path_factory.mktemp("replay")
    (replay / "sys.senml").write_text(recorded(tmp_path_factory.getbasetemp() / "nowhere"))
    with redis.Redis.from_url(broker_url) as client, ExitStack() as stack:
        client.flushall()
        nodes = {}
        for node in NODES:
            wire = Wire(broker_url)
            stack.callback(wire.close)
            nodes[node] = stack.enter_context(running_agent(
                client, wire.url, tmp_path_factory.mktemp(node), plugin=plugin_folder, task_types=catalogue(*types),
                node=node, WEIR_REPLAY_DIRS=str(replay) if node == NODES[0] else "/nowhere"))
            nodes[node].wire = wire
            nodes[node].trigger_ms = 200  # a part that nobody reads is full after 256 batches
        hosts = Hosts(client, nodes)
        hosts.wait_serving()
        yield hosts
        client.flushall()


@pytest.fixture(autouse=True)
def afterwards_nothing(hosts: Hosts):
    yield
    for rig in hosts.nodes.values():
        rig.wire.mend()
        rig.signal(signal.SIGCONT)
    hosts.publish(Estate(slots=hosts.slots))
    hosts.wait(lambda: len(hosts.report()["slots"]) == 2
               and not any(slot["fragments"] for slot in hosts.report()["slots"].values()), what="nothing runs")


class Planned:
    """A dataflow that is submitted by a schedule and gets others, by the plans that the site would make."""

    def __init__(self, hosts: Hosts, text: str, name: str) -> None:
        self.hosts, self.name = hosts, name
        self.types = next(iter(hosts.nodes.values())).task_types
        self.estate = Estate(generation=hosts.version, slots=hosts.slots)
        self.dataflow = read_document(text, task_types=self.types)
        self.plan = None

    def alone(self) -> None:
        """As it is without a schedule: one query on one slot."""
        self.estate = Estate(generation=self.hosts.version, slots=self.hosts.slots[:1])
        self._carry_out(self._submission(None))

    def submit(self, *, rate_per_s: float) -> None:
        job = self._job(rate_per_s)
        self._carry_out(self._submission(schedule(job, ("LSA", "DSM"), supply=self.supply())))

    def change(self, *, rate_per_s: float, nodes=NODES) -> None:
        """Give it another schedule, of these nodes' slots."""
        self._carry_out(self.plan_of_change(rate_per_s=rate_per_s, nodes=nodes))

    def plan_of_change(self, *, rate_per_s: float, nodes=NODES):
        running, why_not = schedulable(self.estate, self.name, self.dataflow, task_types=self.types)
        assert not why_not
        job = self._job(rate_per_s)
        supply = self.supply(nodes)
        assigner = SlotAssigner(
            {task: fragment.queries for task, fragment in running.items()}, pinned=bound(running, job), supply=supply)
        planned = schedule(job, ("LSA", "DSM"), supply=supply, arrange=assigner)
        return plan_schedule(
            self.estate, self.name, planned, task_types=self.types, prices=Prices(), left_bundles=self.left())

    def remove(self) -> None:
        self._carry_out(plan_removal(self.estate, self.name, task_types=self.types, prices=Prices()))

    def supply(self, nodes=NODES) -> Supply:
        return Supply(tuple(Node(name, self.hosts.nodes[name].slots) for name in nodes))

    def left(self) -> frozenset[str]:
        return self.hosts.reports().left

    def is_enacted(self) -> bool:
        done = steps_done(self.plan, EnactmentEvidence(self.hosts.reports()))
        return done == {step.key for step in self.plan.steps}

    def wait_enacted(self) -> None:
        self.hosts.wait(self.is_enacted, what="the plan is enacted")

    def bundles(self, task: str):
        """Those that work: their slots, by id."""
        running = self.estate.submitted[self.name].running[task]
        fragment = self.estate.fragments[self.estate.places[running][0]]
        return {query.id: query.slot for query in fragment.queries if not query.leaving}

    def channel(self, task: str) -> str:
        return self.estate.channel_of(self.estate.submitted[self.name].running[task])

    def _job(self, rate_per_s: float, **more):
        return prepare(
            self.dataflow, task_types=self.types, profiles=PROFILES, rate_per_s=rate_per_s, **more)

    def _submission(self, planned):
        return plan_submission(
            self.estate, self.dataflow, dataflow_id=self.name, team="city", task_types=self.types, prices=Prices(),
            schedule=planned)

    def _carry_out(self, plan) -> None:
        self.plan, self.estate = plan, apply_plan(self.estate, plan)
        self.hosts.version = self.estate.generation - 1
        self.hosts.publish(self.estate)


def came_through(flow: Planned) -> bool:
    """Whether the recording has been sent to its end, and every reader has committed the newest block that it reads."""
    hosts, [source] = flow.hosts, flow.bundles("city")
    if committed_offsets(hosts.nodes[NODES[0]].data_dir / "checkpoints" / source).get("next") != EVENTS:
        return False
    queries = {bundle.id for fragment in flow.estate.fragments.values() for bundle in fragment.queries}
    channels = [key.decode().split(":")[2] for key in hosts.broker.scan_iter(match=keys.readers("*"))]
    infos = [hosts.channels.info(channel) for channel in channels if channel.split(".")[0] in queries]
    return all(place == info.last for info in infos for place in info.readers.values())


def sorted_events(events: list[dict]) -> list[str]:
    """All columns but the moment of birth; bundles keep no order between them."""
    return sorted(
        json.dumps({name: value for name, value in event.items() if name != "_born"}, sort_keys=True)
        for event in events)


def run_to_its_end(flow: Planned) -> list[str]:
    flow.wait_enacted()
    flow.hosts.wait(lambda: came_through(flow), what="everything came through")
    return sorted_events(flow.hosts.events(flow.channel("out")))


def test_a_schedule_over_two_nodes_delivers_what_the_dataflow_delivers_alone(hosts: Hosts):
    flow = Planned(hosts, CITY.format(name="alone"), "alone")
    flow.alone()
    alone = run_to_its_end(flow)
    assert 4 * EVENTS < len(alone) < 5 * EVENTS, "of five readings of each event some are filtered out"
    flow.remove()

    flow = Planned(hosts, CITY.format(name="divided"), "divided")
    flow.submit(rate_per_s=200)
    for task in ("parse", "warm"):
        assert sorted(flow.bundles(task).values()) == ["n1/0", "n2/0"], "its bundles are on both nodes"
    assert set(flow.bundles("city").values()) == {"n1/0"} and set(flow.bundles("out").values()) == {"n2/0"}
    assert run_to_its_end(flow) == alone
    for task in ("parse", "warm"):
        for part in flow.bundles(task):
            assert hosts.fragment(part)["state"] == "running"
            assert int(hosts.broker.hget(keys.meter(part), "in:n")) > EVENTS / 4, "each bundle had its part"


@pytest.mark.parametrize("seed", range(2))
def test_bundles_move_between_nodes_while_machines_lose_power(hosts: Hosts, seed: int):
    chance = random.Random(seed)
    flow = Planned(hosts, COUNTED, "counted")
    flow.submit(rate_per_s=200)
    flow.wait_enacted()
    assert sorted(flow.bundles("python").values()) == ["n1/0", "n2/0"]
    out = flow.channel("out")
    grows(hosts, out)
    for rate_per_s in (140, 200, 140):
        before = flow.bundles("python") | flow.bundles("shift")
        flow.change(rate_per_s=rate_per_s)
        assert flow.bundles("python") | flow.bundles("shift") != before, "something begins or leaves"
        hosts.wait(lambda: flow.is_enacted() or chance.random() < 0.05, what="somewhere in the middle")
        node = hosts.nodes[chance.choice(NODES)]
        node.kill()
        node.start()
        grows(hosts, out)
        flow.wait_enacted()
    grows(hosts, out)
    check(hosts, out)


def test_what_cannot_leave_its_node_is_refused_before_anything_happens(hosts: Hosts):
    flow = Planned(hosts, SUMMED, "summed")
    flow.submit(rate_per_s=200)
    flow.wait_enacted()
    nodes = {task: slot.partition("/")[0] for task in ("count", "sum") for slot in flow.bundles(task).values()}
    wanted = {node: desired_publishing.read(hosts.broker, node) for node in NODES}
    queries = {
        name: fragment["run_id"] for slot in hosts.report()["slots"].values() 
        for name, fragment in slot["fragments"].items()}
    assert queries
    other = next(node for node in NODES if node != nodes["sum"])
    with pytest.raises(NotEnactable, match=r"cannot leave its node|cannot leave n") as refused:
        flow.change(rate_per_s=60, nodes=(other,))
    assert "sum" in refused.value.facts["tasks"] and refused.value.remedy
    # The same of a single fragment, whoever plans it.
    running = flow.estate.submitted["summed"].running["sum"]
    fragment = flow.estate.fragments[flow.estate.places[running][0]]
    with pytest.raises(NotEnactable, match=f"sum cannot leave {nodes['sum']}"):
        divided_anew("sum", fragment, [WantedBundle(f"{other}/0", 1, 1.0)], ids=iter(["x"]))
    grows(hosts, flow.channel("sums"))
    check_sums(hosts, flow.channel("sums"))
    assert {node: desired_publishing.read(hosts.broker, node) for node in NODES} == wanted
    assert {
        name: fragment["run_id"] for slot in hosts.report()["slots"].values()
        for name, fragment in slot["fragments"].items()} == queries, "every query runs on"


@pytest.mark.parametrize("how", ["stopped", "cut off"])
def test_a_node_that_was_away_goes_on_where_it_was(hosts: Hosts, how: str):
    name = f"away-{how[0]}-"
    flow = Flow(
        hosts, name, [bundle(f"{name}1-1", "n1/0"), bundle(f"{name}a-1", "n2/0")],
        [bundle(f"{name}1-2", "n1/0"), bundle(f"{name}a-2", "n2/0")], ends=("n1/0", "n1/0"))
    flow.divide(1, *(bundle(part.id, part.slot, 1, 0.5) for part in flow.fragments[1].bundles))
    flow.divide(2, *(bundle(part.id, part.slot, 1, 0.5) for part in flow.fragments[2].bundles))
    flow.publish()
    hosts.wait_running(*(bundle.id for fragment in flow.fragments for bundle in fragment.queries))
    flow.grows()
    away = hosts.nodes["n2"]
    away.wire.cut()
    if how == "stopped":
        away.signal(signal.SIGSTOP)
    hosts.wait(lambda: "n2" not in read_reports(hosts.broker), what="nothing is heard of it")
    flow.grows()  # what the other node has to do goes on

    # Meanwhile a plan is made that it does not hear of: all that it has of them is to leave.
    for number in (1, 2):
        before = flow.fragments[number]
        flow.fragments[number] = divided_anew(
            before.tasks[0], before, [WantedBundle("n1/0", 2, 1.0)], ids=iter(())).after[before.id]
        assert [bundle.slot for bundle in flow.fragments[number].bundles if bundle.leaving] == ["n2/0"]
    flow.publish()
    flow.grows()
    seqs = flow.numbers()
    assert set(range(max(seqs))) - set(seqs), "what it had to do is nobody else's"

    away.signal(signal.SIGCONT)
    away.wire.mend()
    hosts.wait(lambda: flow.left() == {f"{name}a-1", f"{name}a-2"}, what="it is back, and has left")
    hosts.wait_running(*(bundle.id for fragment in flow.fragments for bundle in fragment.queries if not bundle.leaving))
    flow.grows()
    flow.check()


def grows(rig: Hosts | Rig, channel: str, by: int = 100) -> None:
    count = len(rig.events(channel))
    rig.wait(lambda: len(rig.events(channel)) > count + by, what=f"more of {channel}")


def check(hosts: Hosts, channel: str) -> None:
    """Every number so far arrives, each once."""
    reached = max(event["_seq"] for event in hosts.events(channel))

    def arrived() -> list[int]:
        return [event["_seq"] for event in hosts.events(channel)]

    hosts.wait(lambda: set(arrived()) >= set(range(reached)), what=f"all up to {reached}")
    events = arrived()
    assert len(events) == len(set(events)), "an event came twice"
    assert all(event["n"] == event["_seq"] + BY for event in hosts.events(channel))


def check_sums(hosts: Hosts, channel: str) -> None:
    """In their order, each with the sum of all before it: the state is that of every event, each once."""
    events = hosts.events(channel)
    assert [event["_seq"] for event in events] == list(range(len(events)))
    assert all(event["sum"] == event["n"] * (event["n"] + 1) / 2 for event in events)
