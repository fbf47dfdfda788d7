"""Workers on a Ray cluster: actors that keep their function and its models."""

from __future__ import annotations

import os
import pickle
import platform
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from nlgauge._version import __version__
from nlgauge.engine.cache import code_digest
from nlgauge.engine.cores import thread_limits
from nlgauge.engine.pool import Pool
from nlgauge.engine.ray import worker as ray_worker
from nlgauge.engine.ray.cluster import ClusterError
from nlgauge.engine.scratch import Scratch
from nlgauge.errors import argument

_SECONDS_TO_START = 120.0


class RayPool(Pool[Any]):
    """Actors with one core each, and one GPU each if models run on `cuda`.

    A dead actor is not restarted by Ray but replaced here, so that its value is known.
    """

    def __init__(self, ray: Any, workers: int, scratch: Scratch) -> None:
        there = ray.cluster_resources()
        cores, gpus = int(there.get("CPU", 0)), int(there.get("GPU", 0))
        on_gpus = os.environ.get("NLGAUGE_DEVICE") == "cuda"
        most, what = (min(cores, gpus), f"GPUs ({argument('device', 'cuda')})") if on_gpus else (cores, "cores")
        if max(1, workers) > most:
            raise ClusterError(
                f"{argument('workers', workers)}, but the Ray cluster has {most} {what}; expected one for each worker"
            )
        super().__init__(workers or most)
        self._ray, self._scratch = ray, scratch
        ray.cloudpickle.register_pickle_by_value(ray_worker)
        self._kind = ray.remote(max_restarts=0, num_cpus=1, num_gpus=int(on_gpus))(ray_worker.RayWorker)
        ours = {name: value for name, value in os.environ.items() if name.startswith("NLGAUGE_")}
        self._variables = {**ours, **thread_limits(self.workers, cores)}
        self._references: dict[Any, Any] = {}
        self._checks: dict[Any, Any] = {}

    def _start(self, function: Callable[[Any], Any]) -> Any:
        worker = self._kind.remote(self._variables, str(Path.cwd()))
        self._checks[worker.about.remote(str(self._scratch.folder))] = worker
        self._set_function(worker, function)
        return worker

    def _set_function(self, worker: Any, function: Callable[[Any], Any]) -> None:
        worker.use.remote(self._ray.cloudpickle.dumps(function), pickle.dumps(self._scratch))

    def _send(self, worker: Any, ticket: int, value: Any) -> None:
        self._references[worker.work.remote(ticket, value)] = worker

    def _wait(self) -> None:
        errors = self._ray.exceptions
        patience = None if any(load.ready for load in self._loads.values()) else _SECONDS_TO_START
        ready, _ = self._ray.wait([*self._checks, *self._references], num_returns=1, timeout=patience)
        if not ready:
            raise ClusterError(
                f"no worker of the Ray cluster started within {_SECONDS_TO_START:.0f} seconds; expected "
                f"{self.workers} free cores: is the cluster busy with other work? (`ray status`)"
            )
        reference = ready[0]
        worker = self._checks.pop(reference, None)
        try:
            found = self._ray.get(reference)
        except errors.RayTaskError as error:
            raise ClusterError(f"a worker of the Ray cluster failed: {error}") from error
        except errors.RayError as error:
            worker = worker or self._references[reference]
            self._take_late_answers(worker)
            self._report_death(worker, _reason(error))
            return
        if worker is not None:
            self._check(found)
            self._report_start(worker)
        else:
            self._report_outcome(self._references.pop(reference), found)

    def _take_late_answers(self, worker: Any) -> None:
        """Take answers of a dead worker that had arrived before its end; its other values are dropped here."""
        for check in [check for check, whose in self._checks.items() if whose == worker]:
            del self._checks[check]
        for reference in [reference for reference, whose in self._references.items() if whose == worker]:
            del self._references[reference]
            with suppress(self._ray.exceptions.RayError):
                self._report_outcome(worker, self._ray.get(reference))

    def _check(self, about: dict[str, str]) -> None:
        """Raise an error for a worker with other code, or one that cannot access the folder of the run."""
        ours = {"NLGauge": f"{__version__}, code {code_digest()}", "Python": platform.python_version()}
        for what, version in ours.items():
            if about[what] != version:
                raise ClusterError(
                    f"the worker on {about['host']} has {what} {about[what]}, and this process {version}; expected the "
                    "same: install one version on all nodes"
                )
        if not about["sees"]:
            raise ClusterError(
                f"the worker on {about['host']} cannot access {self._scratch.folder}; expected a folder that all nodes "
                f"share: name one with {argument('run')}"
            )

    def _end(self, worker: Any, *, at_once: bool) -> None:  # noqa: ARG002 - an idle actor has nothing to finish
        try:
            self._ray.kill(worker)
        except self._ray.exceptions.RayError as error:
            warnings.warn(f"a worker of the Ray cluster could not be ended: {error}", stacklevel=2)


def _reason(error: Exception) -> str:
    """Ray's reason for the end of a worker, in one line."""
    said = " ".join(str(error).split())
    detail = said.partition("Worker exit detail: ")[2] or said
    return f"ended on the Ray cluster: {detail.partition('. ')[0][:300]}"
