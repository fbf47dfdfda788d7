"""Ray clusters on this machine: nodes whose processes can be killed together."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_SECONDS_TO_START = 60.0
_SECONDS_TO_END = 20.0


def free_port() -> int:
    """A port of the loopback that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def shared_variables() -> dict[str, str]:
    """What nodes and drivers share: a token of our own, where the code of NLGauge and of the tests is, and patience."""
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": uuid.uuid4().hex,
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S": "120",
        "PYTHONPATH": os.pathsep.join([str(_ROOT / "src"), str(_ROOT), *sys.path]),
    }


@contextmanager
def node(variables: Mapping[str, str], *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """A node, its processes in a group of their own and its files in a folder with a short name, as sockets want it."""
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as folder:
        started = subprocess.Popen(
            [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *flags],
            env={**os.environ, **variables, "RAY_TMPDIR": folder},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield started
        finally:
            started.terminate()
            try:
                started.wait(_SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                os.killpg(started.pid, signal.SIGKILL)
                started.wait()


@contextmanager
def head_node(variables: Mapping[str, str], *flags: str, client_port: int = 0) -> Iterator[str]:
    """The first node of a cluster: its address, once it answers there."""
    ports = [free_port(), client_port or free_port()]
    where = [f"--port={ports[0]}", f"--ray-client-server-port={ports[1]}", "--include-dashboard=false"]
    with node(variables, "--head", *where, *flags) as head:
        until = time.monotonic() + _SECONDS_TO_START
        while not all(map(_answers, ports)) and head.poll() is None and time.monotonic() < until:
            time.sleep(0.2)
        yield f"127.0.0.1:{ports[0]}"


def wait_for_cores(variables: Mapping[str, str], address: str, cores: int) -> None:
    """Wait until so many cores have joined a cluster."""
    code = (
        "import ray, sys, time\n"
        "ray.init(address=sys.argv[1], log_to_driver=False, logging_level='ERROR')\n"
        "while ray.cluster_resources().get('CPU', 0) < int(sys.argv[2]): time.sleep(0.1)\n"
    )
    command = [sys.executable, "-c", code, address, str(cores)]
    subprocess.run(command, env={**os.environ, **variables}, check=True, timeout=_SECONDS_TO_START)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
