"""An S3 server for tests, in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import boto3

from workers.processes import spawn, stop

SERVER = """
import os, sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=int(sys.argv[1]), verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


class S3Server:
    """moto's S3, in a process of its own: real HTTP, conditional puts; all in memory."""

    def __init__(self, port: int = 0) -> None:
        self._process = spawn(
            [sys.executable, "-c", SERVER, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL)
        port = int(self._process.stdout.readline())
        self.endpoint, self.environment = f"http://127.0.0.1:{port}", {"WEIR_CONNECTOR_HOSTS": f"127.0.0.1:{port}"}
        self.config = {"endpoint": self.endpoint, "access_key": "one", "secret_key": "two"}
        self.client = boto3.client(
            "s3", endpoint_url=self.endpoint, aws_access_key_id="one", aws_secret_access_key="two",
            region_name="us-east-1")

    def leave(self) -> None:
        """Answer nothing: what is under way may be done, or not."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def return_(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def close(self) -> None:
        self.return_()
        stop(self._process, timeout_s=1, sig=signal.SIGKILL)
