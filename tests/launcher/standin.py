"""A supervisor of small commands, run as a process of its own: ``standin.py FOLDER PLAN`` (JSON).

The plan: ``services``, a list of {name, code}, each a Python program run as a child (it finds ``FOLDER`` in its
environment); ``stages``, a list of {names, limit_s}; ``errands``, a list of {name, code, then}, the last of which are
names of services. "ready" on stdout says that all of them were started.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from workers.launcher import machine
from workers.launcher.process_logs import Logs
from workers.launcher.state_folder import CannotStart
from workers.launcher.supervise import Errand, Service, StopStage, Supervisor


def say(text: str) -> None:
    print(text, flush=True)


def argv_of(program: dict[str, str]) -> tuple[str, ...]:
    return (sys.executable, "-P", "-c", program["code"])


def main() -> int:
    folder, plan = Path(sys.argv[1]), json.loads(sys.argv[2])
    stages = [StopStage(tuple(stage["names"]), stage["limit_s"]) for stage in plan["stages"]]
    supervisor = Supervisor(
        logs=Logs(folder / "logs"), environment={**os.environ, "FOLDER": str(folder)}, folder=folder, stages=stages,
        say=say,
    )  # fmt: skip
    supervisor.take_signals()
    try:
        services = {service["name"]: Service(
            service["name"], argv_of(service), is_ready=(folder / f"{service['name']}.pid").exists)
            for service in plan["services"]}
        errands = [
            Errand(errand["name"], argv_of(errand), then=tuple(services[name] for name in errand["then"]))
            for errand in plan["errands"]]
        for name in services.keys() - {name for errand in plan["errands"] for name in errand["then"]}:
            supervisor.start(services[name])
        supervisor.run(*errands)
        supervisor.wait_until_ready([service["name"] for service in plan["services"]], limit_s=120)
        say("ready")
        supervisor.keep_running(turn=machine.follow(supervisor, folder))
    except CannotStart as error:
        say(str(error))
        return 1
    finally:
        supervisor.stop()
    say("stopped")
    return 0


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)  # whoever runs the tests may ignore some, as nohup does
    sys.exit(main())
