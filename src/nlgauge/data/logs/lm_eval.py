"""Sample logs of lm-evaluation-harness: the `samples_TASK_TIME.jsonl` of `--log_samples`, or a folder of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from nlgauge.data.logs.answers import Answered, Line, context_of, dig, lines_of, shown, texts_in
from nlgauge.data.sources.files import located
from nlgauge.data.sources.json_lines import decode_python
from nlgauge.errors import DataError

_KEYS = frozenset({"doc_id", "resps", "filtered_resps"})
_FILE = re.compile(r"samples_(?P<task>.+?)(?:_(?P<time>\d{4}-\d\d-\d\dT[^_]+))?\.jsonl(?:\.gz|\.zst)?")
_LONGEST_LIST = 1 << 20
_EXPECTED = (
    "a sample of lm-evaluation-harness like the first line's (doc_id, resps, filtered_resps): one file holds records "
    "of one kind"
)


def is_sample(record: Mapping[str, Any]) -> bool:
    """Whether a record is one sample of a log."""
    return record.keys() >= _KEYS


def read_samples(lines: Iterable[Line]) -> list[Answered]:
    """The documents of one task: `resps` as the model wrote them, before any filter.

    A document occurs once for each filter of its task, with the same answers; repeats are the responses of one set.
    """
    found: dict[str, Answered] = {}
    seen: dict[tuple[str, str], int] = {}
    for number, record in lines_of(is_sample, lines, _EXPECTED):
        document, rule = str(record["doc_id"]), str(record.get("filter", ""))
        with located(line=number):
            if (document, rule) in seen:
                raise DataError(
                    f"document {document} is a duplicate of line {seen[document, rule]}; expected it once: put the "
                    "samples of each run into a separate file"
                )
            prompt, responses = _prompt(record), _responses(record["resps"], document)
        seen[document, rule] = number
        if document not in found:
            found[document] = Answered(document, responses, prompt, _references(record.get("target")))
    return list(found.values())


def sample_files(folder: Path) -> list[Path]:
    """The sample logs in a results folder, or in its folders of models; none for other folders."""
    here = sorted(path for path in folder.glob("samples_*") if _FILE.fullmatch(path.name))
    return here or sorted(path for path in folder.glob("*/samples_*") if _FILE.fullmatch(path.name))


def folder_answers(files: Iterable[tuple[Path, list[Answered]]]) -> Iterator[Answered]:
    """Answers to several tasks, by several models: document ids are `task/number`, systems the names of models."""
    taken: dict[tuple[str, str], Path] = {}
    for path, answers in files:
        task, model = _FILE.sub(r"\g<task>", path.name), _model(path)
        if (model, task) in taken:
            raise DataError(
                f"holds two runs of task '{task}' by '{model}' ({taken[model, task].name}, {path.name}); expected one: "
                "name one of the files"
            )
        taken[model, task] = path
        yield from (replace(one, id=f"{task}/{one.id}", system=model) for one in answers)


def with_model(answers: list[Answered], path: str) -> list[Answered]:
    """Answers of one log with the name of their model, if the file name has the tool's form."""
    if not _FILE.fullmatch(Path(path).name):
        return answers
    model = _model(Path(path))
    return [replace(one, system=model) for one in answers]


def _model(path: Path) -> str:
    """The model's name from the results beside a sample log, else the name of its folder."""
    time = _FILE.sub(r"\g<time>", path.name)
    results = path.parent / f"results_{time}.json"
    name = None
    if time and results.is_file():
        try:
            name = dig(decode_python(results.read_bytes()), "model_name")
        except (ValueError, OSError) as error:
            raise DataError(
                f"cannot be read ({error}); expected the results of a run: repair or remove it", file=str(results)
            ) from error
    return name if isinstance(name, str) and name else path.resolve().parent.name


def _prompt(record: Mapping[str, Any]) -> str | None:
    """The prompt of a request: generation requests have settings after it, scoring requests a text."""
    arguments = record.get("arguments")
    if isinstance(arguments, dict):
        first = next(iter(arguments.values()), None)
        request = list(first.values()) if isinstance(first, dict) else []
    else:
        first = arguments[0] if isinstance(arguments, list) and arguments else None
        request = first if isinstance(first, list) else []
    if not request:
        return None
    if len(request) < 2 or not isinstance(request[1], dict):
        raise _scored()
    return context_of(request[0])


def _responses(resps: Any, document: str) -> tuple[str, ...]:
    is_nested = isinstance(resps, list) and all(isinstance(request, list) for request in resps)
    answers = [answer for request in resps for answer in request] if is_nested else []
    if not answers:
        raise DataError(
            f"document {document} has no answer (resps: {shown(resps)}); expected texts: run the task again"
        )
    if not all(isinstance(answer, str) for answer in answers):
        raise _scored()
    return tuple(answers)


def _scored() -> DataError:
    return DataError(
        "found log-likelihoods of given answers; expected texts that the model wrote: use the samples of a task with "
        "output_type generate_until"
    )


def _references(target: Any) -> tuple[str, ...]:
    """The target as references; a list of texts is logged in Python's notation."""
    if isinstance(target, str) and target[:2] in ("['", '["') and target.endswith("]") and len(target) < _LONGEST_LIST:
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            return texts_in(ast.literal_eval(target))
    return texts_in(target)
