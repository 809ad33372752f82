"""Storm Flux topologies (YAML) read as dataflows, where their components stand for Weir's task types.

A spout or bolt names its task type by ``weir.type`` in its ``config`` or ``properties``, else by the last part of its
``className``: ``in.dream_lab.SenMLParseBolt`` is ``senml_parse``. Its parameters are the other ``properties``, by name
and value. What only concerns Storm (parallelism, groupings, workers) is passed over: Weir plans it by itself.
"""

from __future__ import annotations

import re

from .positions import DocumentNode, Problems, UnreadableDocument, shown
from .task_types import TaskTypes

_SUFFIX = re.compile(r"(spout|bolt|task)$")
_VARIABLE = re.compile(r"\$\{[^{}]*\}")
_COMPONENT_KEYS = frozenset({"spouts", "bolts", "topologySource"})
_TYPE_KEY, _RATE_KEY, _CHAIN_KEY = _OWN_KEYS = "weir.type", "weir.rate", "weir.chain"


def is_flux(root: DocumentNode) -> bool:
    """True if a document is a Flux topology."""
    if not root.is_mapping:
        return False
    return not _COMPONENT_KEYS.isdisjoint(root.value) or ("includes" in root.value and "tasks" not in root.value)


def type_remedy(class_name: str) -> str:
    """The remedy for a component whose class stands for no task type."""
    return (
        f"Storm's class {shown(class_name)} does not run here: say which task type stands for it, "
        "with weir.type in the component's config, and give its parameters as properties."
    )


def read_flux(root: DocumentNode, problems: Problems, *, task_types: TaskTypes) -> DocumentNode:
    """The Weir document that a Flux topology means; every value keeps its place in the topology."""
    return _Reader(problems, task_types).document(root)


class _Reader:
    def __init__(self, problems: Problems, task_types: TaskTypes) -> None:
        self.problems = problems
        self.names = {_squashed(name): name for name in task_types}
        self.task_types = task_types

    def document(self, root: DocumentNode) -> DocumentNode:
        for key in ("includes", "topologySource"):
            if key in root.value:
                self.unsupported(root.keys[key], f"{key} is not read", "Write the spouts, bolts and streams out.")
        for key, node in root.value.items():
            if key not in ("config", "components"):
                self.variables(node)
        if root.value.keys().isdisjoint(("spouts", "bolts")):
            raise UnreadableDocument  # all that it has is elsewhere, which has been reported
        tasks = [self.component(node) for key in ("spouts", "bolts") for node in self.list_of(root, key)]
        streams = [self.stream(node) for node in self.list_of(root, "streams")]
        taken = ("name", "description", "visibility", "rates", "latency", "goals")
        values = {key: root.value[key] for key in taken if key in root.value}
        values |= {"tasks": DocumentNode(tasks, root.position), "streams": DocumentNode(streams, root.position)}
        return _mapping(root, values, root.keys)

    def list_of(self, root: DocumentNode, key: str) -> list[DocumentNode]:
        node = root.value.get(key)
        if node is None or node.value is None:
            return []
        if not node.is_list:
            self.problems.add("ill_typed", node.position, f"The {key} are a list; this is not.", "Write a list.")
            return []
        return node.value

    def variables(self, node: DocumentNode) -> None:
        """Report Flux's variables: their values are not in the file, so nobody could review what would run."""
        stack = [node]
        while stack:
            node = stack.pop()
            if isinstance(node.value, str) and (variable := _VARIABLE.search(node.value)):
                self.problems.add(
                    "flux_variable", node.position, f"Variable {shown(variable[0])} has no value here.",
                    "Write the value itself.",
                )
            stack.extend(node.value.values() if node.is_mapping else node.value if node.is_list else ())

    def component(self, node: DocumentNode) -> DocumentNode:
        if not node.is_mapping:
            return DocumentNode(node.value, node.position)
        settings = {key: setting for key, setting in self.config(node).items() if key in _OWN_KEYS}
        parameters = DocumentNode({}, node.position)
        for name, value in self.properties(node):
            if name.value in _OWN_KEYS:
                settings[name.value] = value
            else:
                parameters.value[name.value], parameters.keys[name.value] = value, name.position
        class_name = node.value.get("className")
        task_type = settings.get(_TYPE_KEY) or class_name
        if _TYPE_KEY not in settings and class_name is not None and isinstance(class_name.value, str):
            task_type = DocumentNode(self.type_named(class_name.value), class_name.position)
        fields = {
            "id": node.value.get("id"), "type": task_type, "config": parameters, "rate": settings.get(_RATE_KEY),
            "chain": settings.get(_CHAIN_KEY)}
        if task_type is not None and task_type.value in self.names.values():
            self.storm_only(node)
        return _mapping(node, {key: value for key, value in fields.items() if value is not None}, node.keys)

    def config(self, node: DocumentNode) -> dict[str, DocumentNode]:
        config = node.value.get("config")
        if config is None or config.value is None:
            return {}
        if not config.is_mapping:
            self.problems.add("ill_typed", config.position, "A config is a mapping; this is not.", "Write key: value.")
            return {}
        return config.value

    def properties(self, node: DocumentNode) -> list[tuple[DocumentNode, DocumentNode]]:
        properties = []
        for entry in self.list_of(node, "properties"):
            name = entry.value.get("name") if entry.is_mapping else None
            if name is None or not isinstance(name.value, str):
                self.problems.add("ill_typed", entry.position, "A property has a name and a value.", "Write both.")
            elif "value" in entry.value:
                properties.append((name, entry.value["value"]))
            else:
                self.unsupported(entry.position, f"property {shown(name.value)} has no value of its own",
                                 "Write a value.")
        return properties

    def storm_only(self, node: DocumentNode) -> None:
        """Report what would change the logic of a component and has no meaning here."""
        for key in ("constructorArgs", "configMethods", "factory"):
            if key in node.value and node.value[key].value:
                self.unsupported(node.keys[key], f"{key} is not read", "Give the task's parameters as properties.")

    def type_named(self, class_name: str) -> str:
        return self.names.get(_squashed(class_name.rpartition(".")[2]), class_name)

    def stream(self, node: DocumentNode) -> DocumentNode:
        if not node.is_mapping:
            return node
        grouping = node.value.get("grouping")
        if grouping is not None and grouping.is_mapping and "streamId" in grouping.value:
            self.unsupported(
                grouping.keys["streamId"], "named streams are not read", "Let a task of its own choose the events."
            )
        return _mapping(node, {key: node.value[key] for key in ("from", "to") if key in node.value}, node.keys)

    def unsupported(self, position, construct: str, remedy: str) -> None:
        self.problems.add("flux_unsupported", position, f"In this Flux topology {construct}.", remedy)


def _mapping(like: DocumentNode, values: dict[str, DocumentNode], keys: dict) -> DocumentNode:
    return DocumentNode(values, like.position, {key: keys.get(key, node.position) for key, node in values.items()})


def _squashed(name: str) -> str:
    squashed = re.sub(r"[^a-z0-9]", "", name.casefold())
    return _SUFFIX.sub("", squashed) or squashed
