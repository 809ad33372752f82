"""An object store over HTTP with a set service time: what a download waits for, without a cloud.

    python -m tests.benches.object_store --service-ms 50 --bytes 20000

It says ``http://127.0.0.1:PORT`` on its first line and serves ``GET /objects/NAME`` until its input ends. Every request
is answered after the same time however many wait, in one thread that only sleeps: its CPU is next to nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from urllib.parse import unquote

LONGEST_HEAD = 16_384


async def serve(*, service_s: float, size: int) -> None:
    """Serve until standard input ends."""
    waiting: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(_answer_all(reader, writer, service_s=service_s, size=size))
        waiting.add(task)
        task.add_done_callback(waiting.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=LONGEST_HEAD)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()
    for task in waiting:
        task.cancel()


async def _answer_all(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, service_s: float, size: int
) -> None:
    """Answer the requests of one connection, one after the other."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, *_ = head.decode("latin-1").split(" ", 2)
            await asyncio.sleep(service_s)
            body = _object(target, size) if method == "GET" and target.startswith("/objects/") else None
            writer.write(_response(body))
            await writer.drain()
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ValueError):
        pass  # the client left, or speaks something else
    finally:
        writer.close()


def _object(target: str, size: int) -> bytes:
    """An object that tells its name, as large as all are."""
    return f"{unquote(target.removeprefix('/objects/'))}\n".encode().ljust(size, b".")[:size]


def _response(body: bytes | None) -> bytes:
    status = "404 Not Found" if body is None else "200 OK"
    content = body or b""
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--service-ms", type=float, default=50.0)
    parser.add_argument("--bytes", type=int, default=20_000)
    given = parser.parse_args()
    asyncio.run(serve(service_s=given.service_ms / 1000, size=given.bytes))


if __name__ == "__main__":
    main()
