"""Output of OpenAI's batch API: lines of `custom_id` and the body of a response, and the input that asked for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nlgauge.data.logs.answers import Answered, Line, context_of, describe_content, shown, text_of
from nlgauge.errors import DataError


def is_output(record: Mapping[str, Any]) -> bool:
    """Whether a record is one line of a batch's output, or of its file of errors."""
    if "custom_id" not in record or "response" not in record:
        return False
    response = record["response"]
    return isinstance(response, dict) or (response is None and record.get("error") is not None)


def is_input(record: Mapping[str, Any]) -> bool:
    """Whether a record is one line of a batch's input."""
    return record.keys() >= {"custom_id", "method", "url", "body"} and isinstance(record["body"], dict)


def read_prompts(lines: Iterable[Line], file: str) -> dict[str, str | None]:
    """The prompt of each request in a batch's input."""
    prompts: dict[str, str | None] = {}
    for number, record in lines:
        if not is_input(record):
            raise DataError(
                f"found {', '.join(record) or 'no keys'}; expected a request of a batch's input (custom_id, method, "
                "url, body)",
                file=file,
                line=number,
            )
        name = str(record["custom_id"])
        if name in prompts:
            raise _twice(name, file, number)
        body = record["body"]
        prompts[name] = context_of(body.get("messages", body.get("input", body.get("prompt"))))
    return prompts


def read_output(
    lines: Iterable[Line], file: str, prompts: Mapping[str, str | None] | None = None, asked_in: str = ""
) -> list[Answered]:
    """The answers of a batch, in the order of its output; several choices are the responses of one set."""
    answers: dict[str, Answered] = {}
    for number, record in lines:
        if not is_output(record):
            raise DataError(
                f"found {', '.join(record) or 'no keys'}; expected a line of a batch's output (custom_id, response, "
                "error) like the first: one file holds records of one kind",
                file=file,
                line=number,
            )
        name = str(record["custom_id"])
        if name in answers:
            raise _twice(name, file, number)
        if prompts is not None and name not in prompts:
            raise DataError(
                f"custom_id '{name}' is not among the requests of {asked_in}; expected the input of the same batch",
                file=file,
                line=number,
            )
        body = _body(record, name, file, number)
        model = body.get("model")
        answers[name] = Answered(
            name,
            _responses(body, name, file, number),
            prompts[name] if prompts is not None else None,
            system=model if isinstance(model, str) else None,
        )
    return list(answers.values())


def _body(record: Mapping[str, Any], name: str, file: str, number: int) -> dict[str, Any]:
    response = record["response"] or {}
    body = response.get("body")
    failed = record.get("error") or (body.get("error") if isinstance(body, dict) else None)
    status = response.get("status_code", 200)
    if failed or status != 200 or not isinstance(body, dict):
        reason = failed.get("message") or failed.get("code") or failed if isinstance(failed, dict) else failed
        found = f"an error ({shown(reason)})" if reason else f"status {status} and no body"
        raise DataError(
            f"request '{name}' has {found}; expected an answer: send it again, or remove the line",
            file=file,
            line=number,
        )
    return body


def _responses(body: Mapping[str, Any], name: str, file: str, number: int) -> tuple[str, ...]:
    """The texts of a body of chat completions, of completions or of the Responses API."""
    contents = _contents(body)
    if not contents:
        raise DataError(
            f"request '{name}' has no answer (the body has {', '.join(body) or 'nothing'}); expected choices, as chat "
            "completions, completions and responses give",
            file=file,
            line=number,
        )
    texts = []
    for place, (content, instead) in enumerate(contents):
        text = text_of(content)
        if text is None:
            raise DataError(
                f"choice {place} of request '{name}' has no text (found {instead or describe_content(content)}); "
                "expected text: remove the line",
                file=file,
                line=number,
            )
        texts.append(text)
    return tuple(texts)


def _contents(body: Mapping[str, Any]) -> list[tuple[Any, str]]:
    """The content of each choice, and what it has instead of text if known."""
    choices = body.get("choices")
    if isinstance(choices, list):
        whole = [choice for choice in choices if isinstance(choice, dict)]
        return [_choice(choice) for choice in sorted(whole, key=_index)]
    output = body.get("output")
    if isinstance(output, list):
        parts = [entry for entry in output if isinstance(entry, dict)]
        said = [entry.get("content") for entry in parts if entry.get("type") == "message"]
        flat = [part for content in said if isinstance(content, list) for part in content]
        return [(flat, "" if flat else f"output of type {', '.join(str(entry.get('type')) for entry in parts)}")]
    return []


def _index(choice: Mapping[str, Any]) -> int:
    index = choice.get("index")
    return index if isinstance(index, int) else 0


def _choice(choice: Mapping[str, Any]) -> tuple[Any, str]:
    message = choice.get("message")
    if not isinstance(message, dict):
        return choice.get("text"), ""
    instead = "a refusal" if message.get("refusal") else "a tool call" if message.get("tool_calls") else ""
    return message.get("content"), instead


def _twice(name: str, file: str, number: int) -> DataError:
    return DataError(
        f"custom_id '{name}' is a duplicate; expected each once: several answers to one request are its choices (n)",
        file=file,
        line=number,
    )
