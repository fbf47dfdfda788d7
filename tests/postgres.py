"""A real PostgreSQL server for tests: one a test session, in a folder of its own, on a port of its own."""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ADDRESS = "postgresql://tester:secret-word@127.0.0.1:{port}/{database}"


@pytest.fixture(scope="session")
def postgres_port() -> Iterator[int]:
    """The port of the server, which runs until the tests end."""
    programs = find_programs()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed (neither on the PATH nor in /usr/lib/postgresql)")
    import psycopg

    with running_server(programs) as port:
        with psycopg.connect(ADDRESS.format(port=port, database="postgres"), autocommit=True) as connection:
            connection.execute("CREATE DATABASE tests")
        yield port


@pytest.fixture
def postgres_url(postgres_port: int) -> str:
    """The address of an empty database: whatever an earlier test left there is gone, its connections included."""
    import psycopg

    url = ADDRESS.format(port=postgres_port, database="tests")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return url


def find_programs() -> Path | None:
    """The folder of `initdb` and `postgres`: the newest under /usr/lib/postgresql, or the one on the PATH."""
    folders = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    folders.sort(key=lambda folder: int(folder.parent.name) if folder.parent.name.isdigit() else 0)
    on_path = shutil.which("initdb")
    if on_path is not None:
        folders.append(Path(on_path).resolve().parent)
    return next((folder for folder in reversed(folders) if (folder / "postgres").exists()), None)


@contextmanager
def running_server(programs: Path) -> Iterator[int]:
    """A server on a free port of the loopback, ended by its own process id, at once: its data is thrown away."""
    folder = Path(tempfile.mkdtemp(prefix="nlgauge-postgres-"))
    try:
        user = server_user()
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        data, port = folder / "data", free_port()
        (folder / "password").write_text("secret-word\n")
        (folder / "password").chmod(0o644)
        prepare = [programs / "initdb", "-D", data, "-U", "tester", "-A", "scram-sha-256", "-E", "UTF8", "--locale=C"]
        run_as(user, [*map(str, prepare), f"--pwfile={folder / 'password'}"], folder)
        options = {"port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": folder}
        options |= {"max_connections": 200, "shared_buffers": "64MB"}
        command = [str(programs / "postgres"), "-D", str(data)]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, **identity(user))
        try:
            wait_until_ready(server, port, folder / "log")
            yield port
        finally:
            server.send_signal(signal.SIGQUIT)
            server.wait(timeout=60)
    finally:
        shutil.rmtree(folder)


def server_user() -> pwd.struct_passwd | None:
    """PostgreSQL refuses to run as root: another user then, else whoever runs the tests."""
    if os.geteuid() != 0:
        return None
    names = {user.pw_name: user for user in pwd.getpwall()}
    for name in ("postgres", "nobody"):
        if name in names:
            return names[name]
    pytest.skip(f"PostgreSQL does not run as {getpass.getuser()}, and there is no user 'postgres' or 'nobody'")


def identity(user: pwd.struct_passwd | None) -> dict[str, Any]:
    return {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def run_as(user: pwd.struct_passwd | None, command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, **identity(user))
    assert done.returncode == 0, done.stderr


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_ready(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    import psycopg

    place = ADDRESS.format(port=port, database="postgres")
    for _ in range(300):
        try:
            psycopg.connect(place, connect_timeout=2).close()
        except psycopg.OperationalError:
            assert server.poll() is None, log.read_text()
            time.sleep(0.1)
        else:
            return
    pytest.fail(f"PostgreSQL did not answer in 30 seconds: {log.read_text()}")
