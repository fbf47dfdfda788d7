"""Joining a Ray cluster, or starting one for the time of a run."""

from __future__ import annotations

import os
import re
import secrets
import socket
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any

from nlgauge.engine.cores import available_cores
from nlgauge.errors import MissingExtra, NLGaugeError, OptionError, argument

_SECONDS_TO_CONNECT = 5.0
_CLIENT_PORT = 10001
_ADDRESS = re.compile(r"(ray://)?([^:/\s]+|\[[0-9a-fA-F:]+\])(?::([0-9]+))?")


class ClusterError(NLGaugeError):
    """A cluster that cannot be reached or used."""


def import_ray() -> Any:
    """Import the package with usage reports to its makers switched off."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        raise MissingExtra.needs(argument("engine", "ray"), "scale") from error
    return ray


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `ray://HOST:PORT` or `HOST:PORT`."""
    found = _ADDRESS.fullmatch(address)
    if found is None or not (found[1] or found[3]):
        raise OptionError(
            f"{argument('engine', address)}; expected local, ray (join the running cluster or start one), "
            "ray://HOST:PORT (of a cluster's client server) or HOST:PORT (of a cluster that this machine belongs to)"
        )
    return found[2].strip("[]"), int(found[3] or _CLIENT_PORT)


@contextmanager
def cluster(address: str, workers: int) -> Iterator[Any]:
    """Connect Ray to the cluster of this process, to one at an address, to a running one, or to a new one.

    An empty address means `RAY_ADDRESS`, else a cluster that runs on this machine, else a new one with `workers`
    workers, which ends with the block. An existing connection stays open.
    """
    if address:
        split_address(address)
    ray = import_ray()
    if ray.is_initialized():
        yield ray
        return
    address = address or os.environ.get("RAY_ADDRESS", "")
    quietly = {"log_to_driver": False, "logging_level": "ERROR"}
    with ExitStack() as settings:
        if address and address not in ("auto", "local"):
            _connect(ray, address, quietly)
        elif address == "local" or not _joined(ray, quietly):
            settings.enter_context(_alone())
            cores = max(1, workers or available_cores())
            ray.init(address="local", num_cpus=cores, include_dashboard=False, _node_ip_address="127.0.0.1", **quietly)
        _keep_quiet()
        try:
            yield ray
        finally:
            ray.shutdown()


@contextmanager
def _alone() -> Iterator[None]:
    """Settings of a cluster for this process alone: it listens on the loopback, and asks for its own token.

    Ray replaces a loopback address by one that other machines reach, unless clusters of machines are switched off.
    """
    from ray._private import ray_constants

    raylet: Any = import_module("ray._raylet")
    clusters, allowed = ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR, ray_constants.ENABLE_RAY_CLUSTER
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), clusters: "0"}
    before = {name: os.environ[name] for name in own if name in os.environ}

    def use(allowed: bool) -> None:
        ray_constants.ENABLE_RAY_CLUSTER = allowed
        raylet.Config.initialize("")
        raylet.AuthenticationTokenLoader.instance().reset_cache()

    os.environ.update(own)
    use(False)
    try:
        yield
    finally:
        for name in own:
            del os.environ[name]
        os.environ.update(before)
        use(allowed)


def _connect(ray: Any, address: str, quietly: dict[str, Any]) -> None:
    host, port = split_address(address)
    try:
        socket.create_connection((host, port), _SECONDS_TO_CONNECT).close()
    except OSError as error:
        raise ClusterError(
            f"no Ray cluster answers at {address} ({error.strerror or error}); expected `ray start --head` to have "
            f"been run there, and the port to be open; {argument('engine', 'ray')} starts a cluster on this machine"
        ) from error
    for again in (True, False):
        try:
            _init(ray, address, quietly)
            return
        except Exception as error:  # Ray has errors of many kinds for this, and even failed assertions
            # a cluster starts a process for each client, which may take too long on a busy node
            if not (again and isinstance(error, ConnectionAbortedError)):
                raise _refused(address, error) from error


def _joined(ray: Any, quietly: dict[str, Any]) -> bool:
    """Whether a cluster runs on this machine, now joined."""
    try:
        _init(ray, "auto", quietly)
    except ConnectionError:
        return False
    except Exception as error:
        raise _refused("this machine", error) from error
    return True


def _init(ray: Any, address: str, quietly: dict[str, Any]) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the error has the same message
            ray.init(address=address, **quietly)
    except Exception:
        ray.shutdown()  # else Ray treats this process as a client without a connection
        raise


def _refused(address: str, error: Exception) -> ClusterError:
    said = " ".join(str(error).split())
    if "ersion mismatch" in said:
        return ClusterError(f"the Ray cluster at {address} has another version: {said}; install the same on both")
    said = said[:500] or type(error).__name__
    if said == "ray client connection timeout":
        said += " (ray:// wants the port of the cluster's client server, which is 10001 by default)"
    return ClusterError(
        f"the Ray cluster at {address} cannot be joined: {said}; if it asks for a "
        "token, set RAY_AUTH_MODE=token here too, and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH to the same token"
    )


def _keep_quiet() -> None:
    """Ray prints the death of a worker on standard output, where results go; the pool reports it itself."""
    from ray._private import worker

    worker.print_to_stdstream = lambda *_anything, **_more: None
