"""Every setting that the environment can give, declared once; ``docs/settings.md`` documents the same table."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from urllib.parse import parse_qs, parse_qsl, unquote, urlencode, urlsplit

from dashboard.teams.groups import Grant, grant_of
from scheduler.model import bounds
from scheduler.model.errors import WeirError
from scheduler.model.prices import VmSize
from workers.broker_address import FORM, replicated_service

ROOT = Path(__file__).resolve().parents[2]
_HOST_PORT = re.compile(r"(?P<host>[^:,\[\]]+)(?::(?P<port>\d{1,5}))?")
# libpq's options for a primary with standbys: the server that takes writes, and no waiting for a machine that is gone.
SEVERAL_SERVERS = {
    "target_session_attrs": "read-write", "connect_timeout": "3", "keepalives_idle": "5", "keepalives_interval": "2",
    "keepalives_count": "3", "tcp_user_timeout": "10000"}


class InvalidSetting(WeirError):
    """An environment variable holds a value that Weir cannot use."""

    code = "invalid_setting"


@dataclass(frozen=True, slots=True)
class Declared:
    """One setting: the variable's name, its default as text and what it does, in a sentence."""

    name: str
    default: str
    doc: str


DECLARED: tuple[Declared, ...] = (
    Declared("REDIS_URL", "redis://127.0.0.1:6379/0", "Broker: Redis 7 or Valkey, or the sentinels of "
             "several: `redis+sentinel://…`. `./weir up` starts an embedded one."),
    Declared("DATABASE_URL", "", "Database; empty means SQLite in the data folder. PostgreSQL: `postgres://…`."),
    Declared("WEIR_DATA_DIR", "", "The one folder that holds all state; empty means `data` next to the launcher."),
    Declared("WEIR_SECRET_KEY", "", "Signs sessions; empty means a key generated once and kept in the data folder."),
    Declared("WEIR_DEBUG", "0", "1 shows tracebacks in the browser. Never on a server that others reach."),
    Declared("WEIR_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]", "Host names that the site answers to, by commas."),
    Declared("WEIR_HTTPS", "0", "1 when the site is reached over HTTPS: cookies become secure, HSTS is sent."),
    Declared("FORWARDED_ALLOW_IPS", "", "Addresses of proxies on other machines, by commas; empty: this machine's."),
    Declared("WEIR_LOG_LEVEL", "INFO", "Lowest level of the site's and the Celery worker's log."),
    Declared("WEIR_SELF_APPROVAL", "0", "1 lets an author approve the own proposal, where the role allows approving."),
    Declared("WEIR_TOKEN_DAYS", "90", "Days after which an API token ends, unless another time is chosen."),
    Declared("WEIR_TOKEN_LONGEST_DAYS", "365", "Days for which an API token may be made, at most."),
    Declared("WEIR_OIDC_ISSUER", "", "Provider of OpenID Connect for single sign-on; empty: there is none."),
    Declared("WEIR_OIDC_CLIENT_ID", "", "Name of this installation there."),
    Declared("WEIR_OIDC_CLIENT_SECRET", "", "Its secret there."),
    Declared("WEIR_OIDC_SCOPES", "openid profile", "Scopes that are asked for, by spaces."),
    Declared("WEIR_OIDC_LABEL", "single sign-on", "What the log-in page calls it."),
    Declared("WEIR_OIDC_NAME_CLAIM", "preferred_username", "Claim that a new user's name comes from."),
    Declared("WEIR_OIDC_GROUPS_CLAIM", "groups", "Claim that lists somebody's groups."),
    Declared("WEIR_OIDC_ROLES", "", "What groups give, `group:team:role` by commas; empty: nothing."),
    Declared("WEIR_OIDC_SESSION_H", "12", "Hours after which people who signed on this way have to do so again."),
    Declared("WEIR_NODE", "n1", "Name of this machine's node."),
    Declared("WEIR_SLOTS", "2", "Slots of this machine's node: one core and one Spark driver each."),
    Declared("WEIR_SPARK_MASTER", "", "Master of a Spark cluster for every slot, `spark://host:7077`; empty: none."),
    Declared("WEIR_SLOT_CORES", "4", "Cores that each slot takes of a Spark cluster: tasks at a time."),
    Declared("WEIR_SLOT_THREADS", "160", "Threads of a slot's Spark driver, where the master is this machine."),
    Declared("WEIR_BROKER_MEMORY_MB", "0", "What the embedded broker may hold, in MB; 0: a third of the machine's."),
    Declared("WEIR_CONNECTOR_MEMORY_MB", "0", "Memory of the process that reads live sources, in MB; 0: half of all."),
    Declared("WEIR_SLOT_MEMORY_MB", "1024", "Heap of a slot's JVM; Python workers and state come on top."),
    Declared("WEIR_HOLD_S", "10", "Seconds for which a slow reader may hold back a stream that others need."),
    Declared("WEIR_ISOLATE", "1", "1: a slow task is cut out of a query that others need; 0: it is not."),
    Declared("WEIR_SPILL_MB", "1024", "Disk for slow readers on each node, in MB; 0: they hold others back."),
    Declared("WEIR_SPILL_TEAM_MB", "512", "Of that, for the slow readers of one team, in MB."),
    Declared("WEIR_COPIES", "0", "How many other nodes have a copy of each query's state: 0 to 3."),
    Declared("WEIR_COPY_S", "10", "Seconds between two copies of a query's state."),
    Declared("WEIR_NODE_LOST_S", "2", "Seconds without a heartbeat after which a node's queries go on from copies."),
    Declared("WEIR_COPIES_MB", "1024", "Room on each node for copies of other nodes' state, in MB."),
    Declared("WEIR_ZONE", "", "The fault zone of a node, such as its rack; empty: a zone of its own."),
    Declared("WEIR_SPARES", "0", "1 keeps a warm driver on each node, which takes the place of one that dies."),
    Declared("WEIR_SPARK_PAGES", "0", "1 shows Spark's own pages of each slot's driver to administrators."),
    Declared("WEIR_CLASS_ARCHIVE", "1", "0 writes no archive of classes, with which drivers start sooner."),
    Declared("WEIR_PIN", "auto", "Whether a slot is held to a core of its own: `auto`, `always` or `never`."),
    Declared("WEIR_SLOT_ENVIRONMENT", "", "Variables that slots, connectors and looks get beside Weir's, by commas."),
    Declared("WEIR_SLOT_READS", "", "Paths that these may read beside their own, as in PATH."),
    Declared("WEIR_REPLAY_DIRS", "", "Folders of recordings, as in PATH; empty: `replay` in the data folder."),
    Declared("WEIR_TRIGGER_MS", "500", "Interval between the batches of a query that is new, in milliseconds."),
    Declared("WEIR_SUPERVISOR_CYCLE_S", "2", "Seconds between an agent's looks at its desired state, beside pushes."),
    Declared("WEIR_WORKER_CYCLE_S", "0.5", "Seconds between a slot's looks at what its agent has stored."),
    Declared("WEIR_TENANCY", "shared", "Whether teams share slots: `shared`, or slots of their own by `team`."),
    Declared("WEIR_PACING", "planned", "How intervals follow limits: `planned`, or by small `steps`."),
    Declared("WEIR_ADAPTATION", "CE", "Algorithm of adaptation: `CE`, `local`, `SH`, `WAAF`, `WPA` or `PLAStiCC`."),
    Declared("WEIR_REAL_TIME", "1", "1: queries leave their batches open where it pays; 0: all have micro-batches."),
    Declared("WEIR_LONGEST_TRIGGER_MS", "10000", "Longest interval between batches, where limits allow it."),
    Declared("WEIR_CORE_HOUR_PRICE", "0.048", "Price of a slot (a core with its memory) for one hour."),
    Declared("WEIR_VM_SIZES", "D1:1:0.098,D2:2:0.196,D3:4:0.392,D4:8:0.784",
             "Catalogue of machines, `name:slots:price per hour` by commas."),
    Declared("WEIR_MACHINE_COMMAND", "", "Command that starts and stops machines for adaptation; empty: none does."),
    Declared("WEIR_MACHINE_WEBHOOK", "", "Webhook that starts and stops them, in place of a command."),
    Declared("WEIR_MACHINE_KEY", "", "Key that this address is given, as a bearer token."),
    Declared("WEIR_MACHINE_SLOTS", "8", "Slots of machines that were ordered so, together, at most."),
    Declared("WEIR_MACHINE_PRICE", "1", "What these may cost an hour, together, at most."),
    Declared("WEIR_MACHINE_REPORT_S", "600", "Seconds within which the agent of such a machine reports."),
    Declared("WEIR_NODE_SIZES", "", "Which size each node has, `node:size` by commas; else the price above."),
    Declared("WEIR_NODE_RACKS", "", "Which rack each node is in, `node:rack` by commas; else all are equally near."),
    Declared("WEIR_MEMORY_GB_HOUR_PRICE", "0", "Price of 1 GiB for one hour; 0: the slot's price covers it."),
    Declared("WEIR_TRAFFIC_GB_PRICE", "0", "Price of 1 GB written to or read from the broker."),
    Declared("WEIR_SPILL_GB_HOUR_PRICE", "0.00014", "Price of 1 GB on disk for a slow reader, for an hour."),
    Declared("WEIR_DEFRAGMENT_HORIZON_H", "24", "Hours ahead, at most, over which fusing queries has to pay."),
    Declared("WEIR_DEFRAGMENT_RATIO", "2", "How many times as much as it disturbs a defragmentation has to gain."),
    Declared("WEIR_DEFRAGMENT_GAP_S", "3", "Seconds for which nothing passes while queries are handed over."),
    Declared("WEIR_DEFRAGMENT_CORE_S", "10", "CPU seconds that handing queries over takes."),
    Declared("WEIR_DEPLOYMENT_LEAST_KB_S", "10", "A move between nodes saves at least so many kB a second."),
    Declared("WEIR_EVENT_DELAY_PRICE", "0.01", "Price of a delay of one second for a million events."),
    Declared("WEIR_CURRENCY", "USD", "Currency of all prices."),
    Declared("WEIR_SECRETS_KEY", "", "Seals teams' secrets; empty: a key made once and kept in the data folder."),
    Declared("WEIR_HTTP_HOSTS", "", "Hosts that `http_post` and `http_get` may reach; with a port if not 80 or 443."),
    Declared("WEIR_INBOX_DIRS", "", "Folders below which `files` may read, as in PATH; empty: none."),
    Declared("WEIR_SPARK_SOURCES", "", "Streaming formats that `spark_source` may read, by commas; empty: none."),
    Declared("WEIR_CONNECTOR_HOSTS", "", "Servers that connectors may read and write, by commas; empty: none."),
    Declared("WEIR_DATABASE_HOSTS", "", "Hosts whose databases tasks may read, and `to_postgresql` write."),
    Declared("WEIR_SINK_HOSTS", "", "Servers and databases that sinks may write; empty: those of the two above."),
    Declared("WEIR_PYTHON_PACKAGES", "", "Functions of packages that `python` tasks may name, by commas; empty: none."),
    Declared("WEIR_CHANNELS_JAR", "", "Jar of the channels, built elsewhere; empty: `jvm` in the environment."),
    Declared("WEIR_DISK_FREE_MB", "1024", "Free space of a data folder, in MB, below which pages warn."),
    Declared("WEIR_FILE_MB", "64", "At how many MB that are staged a sink's file is closed."),
    Declared("WEIR_FILE_S", "60", "Or how many seconds after the first event in it."),
    Declared("WEIR_FILES_KEEP_DAYS", "0", "Days for which files of sinks are kept; 0: for ever."),
    Declared("WEIR_FILES_KEEP_MB", "0", "MB that are kept of each sink's files, the newest; 0: all."),
    Declared("WEIR_AUDIT_KEEP_DAYS", "730", "Days after which months of the audit trail go to files; 0: never."),
    Declared("WEIR_PLANS_KEEP_DAYS", "365", "Days for which details of plans that ended are kept; 0: for ever."),
    Declared("WEIR_TRIALS_KEEP_DAYS", "90", "Days for which the raw series of trials are kept; 0: for ever."),
    Declared("WEIR_SITE_URL", "", "Where people reach the site, such as `https://weir.example.org`: for links."),
    Declared("WEIR_WEBHOOK_HOSTS", "", "Hosts that webhooks may go to, by commas; with a port if not 80 or 443."),
    Declared("EMAIL_URL", "", "Mail server, `smtp://user:password@host:587?tls=1`; empty: mail goes to the log."),
    Declared("WEIR_EMAIL_FROM", "weir@localhost", "Sender of mail."),
    Declared("WEIR_METRICS_TOKEN", "", "Bearer token of `/metrics`; empty: nobody may read it."),
    Declared("WEIR_OPENLINEAGE_URL", "", "Where OpenLineage events are posted; empty: none are."),
    Declared("WEIR_OPENLINEAGE_KEY", "", "API key that is sent along, as a bearer token."),
    Declared("WEIR_OPENLINEAGE_NAMESPACE", "weir", "Namespace of jobs in OpenLineage events."),
    Declared("WEIR_DIGEST_HOUR", "7", "Hour of the day, UTC, at which daily digests go out."),
    Declared("WEIR_DELIVERY_S", "10", "Seconds for all of one delivery of a webhook or mail."),
    Declared("WEIR_PRIVATE_ADDRESSES", "0", "1: allowed names may lead to private ranges of addresses."),
    Declared("WEIR_CONNECTIONS", bounds.CONNECTIONS.default, "Connections that a server process has at a time."),
    Declared("WEIR_HEADER_WAIT_S", bounds.HEADER_WAIT.default, "Seconds until the headers of a request are there."),
    Declared("WEIR_BODY_WAIT_S", bounds.BODY_WAIT.default, "Seconds until the body of a request is there."),
    Declared("WEIR_ANONYMOUS_KB", bounds.ANONYMOUS_BODY.default, "KiB of a request of whom nobody knows here."),
    Declared("WEIR_INGEST_MB", bounds.INGEST_BODY.default, "MiB of a request with events."),
    Declared("WEIR_INGEST_EVENTS", bounds.INGEST_EVENTS.default, "Events of a request, once it is decoded."),
    Declared("WEIR_LIVE_CONNECTIONS", bounds.LIVE_CONNECTIONS.default,
             "Pages that one user may watch live at a time, of a server process."),
    Declared("WEIR_TEAM_PROPOSALS", "100", "Proposals of one team that may be open at a time."),
    Declared("WEIR_TEAM_PLANS_PER_H", "1000", "Plans an hour of one team's people, and as many of its guards."),
    Declared("WEIR_TEAM_TASKS", "20000", "Tasks of one team's dataflows that run or are proposed."),
    Declared("WEIR_TEAM_CONNECTIONS", "400", "Pages that one team may watch live at a time, of a server process."),
    Declared("WEIR_TEAM_EVENTS_PER_H", "600", "Events that one team may post within an hour, for its policies."),
    Declared("WEIR_TEAM_WEBHOOKS", "20", "Webhooks that one team may have, or one person."),
    Declared("WEIR_TEAM_SWEEPS", "4", "Slots on which sweeps of one team's people may measure at a time."),
    Declared("WEIR_TEAM_SAVEPOINTS", "20", "Named savepoints that one team may have."),
)
_BY_NAME = {declared.name: declared for declared in DECLARED}


class Environment:
    """Reads declared settings from a mapping (``os.environ`` unless told) and names the one that is wrong."""

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        self._variables = os.environ if variables is None else variables

    def text(self, name: str) -> str:
        """The value, or the declared default where the variable is absent or empty."""
        return self._variables.get(name, "").strip() or _BY_NAME[name].default

    def flag(self, name: str) -> bool:
        """1, true, yes, on; 0, false, no, off."""
        value = self.text(name).lower()
        if value in {"1", "true", "yes", "on"}:
            return True
        if value in {"0", "false", "no", "off", ""}:
            return False
        raise _invalid(name, value, "1 or 0")

    def integer(self, name: str, *, minimum: int, maximum: int | None = None) -> int:
        """A whole number, not below ``minimum``, and not above ``maximum`` where that is given."""
        value = self.text(name)
        if not value.isdecimal() or int(value) < minimum or (maximum is not None and int(value) > maximum):
            most = "" if maximum is None else f" and at most {maximum}"
            raise _invalid(name, value, f"a whole number, at least {minimum}{most}")
        return int(value)

    def number(self, name: str, *, minimum: float) -> float:
        """A finite number, not below ``minimum``."""
        value = self.text(name)
        number = _number(value)
        if number is None:
            raise _invalid(name, value, "a number")
        if not minimum <= number < float("inf"):
            raise _invalid(name, value, f"a number, at least {minimum}")
        return number

    def words(self, name: str) -> list[str]:
        """Words by commas."""
        return [word.strip() for word in self.text(name).split(",") if word.strip()]

    def vm_sizes(self) -> dict[str, VmSize]:
        """The catalogue of machines, by name."""
        sizes: dict[str, VmSize] = {}
        for entry in self.words("WEIR_VM_SIZES"):
            name, _, remainder = entry.partition(":")
            slots, _, hour = remainder.partition(":")
            price = _price(hour)
            if not name or name in sizes or not slots.isdecimal() or int(slots) < 1 or price is None:
                raise _invalid(
                    "WEIR_VM_SIZES", entry, "entries name:slots:price, each name once, slots from 1, price from 0")
            sizes[name] = VmSize(name, int(slots), price)
        return sizes

    def node_sizes(self) -> dict[str, VmSize]:
        """The size of each node that has one, by node."""
        sizes, machines = self.vm_sizes(), {}
        for entry in self.words("WEIR_NODE_SIZES"):
            node, _, size = entry.partition(":")
            if not node or node in machines or size not in sizes:
                names = ", ".join(sizes) or "none yet"
                raise _invalid(
                    "WEIR_NODE_SIZES", entry, f"entries node:size, each node once, sizes of WEIR_VM_SIZES ({names})")
            machines[node] = sizes[size]
        return machines

    def machine_command(self) -> tuple[str, ...]:
        """The command that starts and stops machines, as its arguments; without any where there is none."""
        value = self.text("WEIR_MACHINE_COMMAND")
        requirement = "the whole path of a program with {action} and {node}, and {size} and {slots} where it needs them"
        try:
            words = tuple(shlex.split(value))
            parts = [part for word in words for part in Formatter().parse(word) if part[1] is not None]
        except ValueError as error:
            raise _invalid("WEIR_MACHINE_COMMAND", value, requirement) from error
        fields = {f"{field}{form}{kind or ''}" for _, field, form, kind in parts}
        if words and (not words[0].startswith("/") or "{" in words[0] or not {"action", "node"} <= fields
                      or not fields <= {"action", "node", "size", "slots"}):
            raise _invalid("WEIR_MACHINE_COMMAND", value, requirement)
        return words

    def machine_webhook(self) -> str:
        """The webhook that starts and stops machines; empty where there is none."""
        url = self.http_url("WEIR_MACHINE_WEBHOOK")
        if url and self.text("WEIR_MACHINE_COMMAND"):
            raise _invalid("WEIR_MACHINE_WEBHOOK", url, "nothing where WEIR_MACHINE_COMMAND names a command")
        return url

    def node_racks(self) -> dict[str, str]:
        """The rack of each node that is in one, by node."""
        hosts: dict[str, str] = {}
        for entry in self.words("WEIR_NODE_RACKS"):
            node, _, rack = entry.partition(":")
            if not node or not rack or node in hosts:
                raise _invalid("WEIR_NODE_RACKS", entry, "entries node:rack, each node once")
            hosts[node] = rack
        return hosts

    def choice(self, name: str, *choices: str) -> str:
        """One of ``choices``."""
        value = self.text(name)
        if value not in choices:
            raise _invalid(name, value, " or ".join(choices))
        return value

    def redis_url(self) -> str:
        """The broker's URL."""
        value = self.text("REDIS_URL")
        try:
            is_known = replicated_service(value) is not None or urlsplit(value).scheme in {"redis", "rediss"}
        except ValueError:
            is_known = False
        if not is_known:
            raise _invalid("REDIS_URL", value, f"redis://host:port/db, or {FORM}")
        return value

    def database_url(self) -> str:
        """The database's URL; of several PostgreSQL servers, the one that takes writes is looked for in their order."""
        value = self.text("DATABASE_URL")
        parts = urlsplit(value)
        login, at, hosts = parts.netloc.rpartition("@")
        if "," not in hosts:
            return value
        servers = [_HOST_PORT.fullmatch(host) for host in hosts.split(",")]
        if not all(servers):
            raise _invalid("DATABASE_URL", "…", "postgres://user:password@host:port,host:port/name")
        query_options = dict(parse_qsl(parts.query))
        ports = ",".join(server["port"] or "5432" for server in servers if server)
        options = {**SEVERAL_SERVERS, "port": ports, **query_options}
        names = ",".join(server["host"] for server in servers if server)
        return parts._replace(netloc=f"{login}{at}{names}", query=urlencode(options)).geturl()

    def http_url(self, name: str) -> str:
        """An address of HTTP without a slash at its end, or nothing."""
        value = self.text(name).rstrip("/")
        if value and (urlsplit(value).scheme not in {"http", "https"} or not urlsplit(value).hostname):
            raise _invalid(name, value, "http://host or https://host")
        return value

    def issuer(self) -> str:
        """The provider of single sign-on, or nothing; by plain HTTP on this machine alone."""
        value = self.http_url("WEIR_OIDC_ISSUER")
        parts = urlsplit(value)
        if value and parts.scheme != "https" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
            raise _invalid("WEIR_OIDC_ISSUER", value, "an address of HTTPS")
        if value and not self.text("WEIR_OIDC_CLIENT_ID"):
            raise _invalid("WEIR_OIDC_CLIENT_ID", "", "what the provider knows this installation by")
        return value

    def grants(self) -> list[Grant]:
        """The roles that groups of that provider give."""
        grants = []
        for entry in self.words("WEIR_OIDC_ROLES"):
            try:
                grants.append(grant_of(entry))
            except ValueError as error:
                raise _invalid(
                    "WEIR_OIDC_ROLES", entry, f"group:team:role or group:*:administrator ({error})") from error
        return grants

    def email(self) -> dict[str, object]:
        """Django's settings of mail, from ``EMAIL_URL``."""
        value = self.text("EMAIL_URL")
        if not value:
            return {"EMAIL_BACKEND": "django.core.mail.backends.console.EmailBackend"}
        parts = urlsplit(value)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in {"smtp", "smtps"} or not parts.hostname or port == -1:
            raise _invalid("EMAIL_URL", "…", "smtp://user:password@host:port, with ?tls=1 for STARTTLS, or smtps://")
        has_tls = parse_qs(parts.query).get("tls", ["0"])[-1] == "1"
        return {
            "EMAIL_BACKEND": "dashboard.outbox.smtp.TimedBackend", "EMAIL_HOST": parts.hostname,
            "EMAIL_PORT": port or {"smtp": 587 if has_tls else 25, "smtps": 465}[parts.scheme],
            "EMAIL_HOST_USER": unquote(parts.username or ""), "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
            "EMAIL_USE_TLS": has_tls, "EMAIL_USE_SSL": parts.scheme == "smtps", "EMAIL_TIMEOUT": 10}

    def data_dir(self) -> Path:
        """The folder of all state, absolute."""
        return Path(self.text("WEIR_DATA_DIR") or ROOT / "data").expanduser().resolve()


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _price(text: str) -> float | None:
    number = _number(text)
    return number if number is not None and 0 <= number < float("inf") else None


def _invalid(name: str, value: str, requirement: str) -> InvalidSetting:
    return InvalidSetting(f"{name} is {value!r}.", remedy=f"Set {name} to {requirement}.", setting=name)
