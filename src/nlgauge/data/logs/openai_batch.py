"""Output of OpenAI's batch API: lines of `custom_id` and the body of a response, and the input that asked for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from nlgauge.data.logs.answers import Answered, Line, context_of, describe_content, dig, lines_of, shown, text_of
from nlgauge.data.sources.files import located
from nlgauge.errors import DataError

_INPUT = "a request of a batch's input (custom_id, method, url, body)"
_OUTPUT = "a line of a batch's output (custom_id, response, error) like the first: one file holds records of one kind"


def is_output(record: Mapping[str, Any]) -> bool:
    """Whether a record is one line of a batch's output, or of its file of errors."""
    if "custom_id" not in record or "response" not in record:
        return False
    response = record["response"]
    return isinstance(response, dict) or (response is None and record.get("error") is not None)


def is_input(record: Mapping[str, Any]) -> bool:
    """Whether a record is one line of a batch's input."""
    return record.keys() >= {"custom_id", "method", "url", "body"} and isinstance(record["body"], dict)


def read_prompts(lines: Iterable[Line]) -> dict[str, str | None]:
    """The prompt of each request in a batch's input."""
    prompts: dict[str, str | None] = {}
    for number, record in lines_of(is_input, lines, _INPUT):
        name = str(record["custom_id"])
        _refuse_repeat(name, prompts, number)
        body = record["body"]
        prompts[name] = context_of(body.get("messages", body.get("input", body.get("prompt"))))
    return prompts


def read_output(
    lines: Iterable[Line], prompts: Mapping[str, str | None] | None = None, asked_in: str = ""
) -> list[Answered]:
    """The answers of a batch, in the order of its output; several choices are the responses of one set."""
    answers: dict[str, Answered] = {}
    for number, record in lines_of(is_output, lines, _OUTPUT):
        name = str(record["custom_id"])
        _refuse_repeat(name, answers, number)
        with located(line=number):
            if prompts is not None and name not in prompts:
                raise DataError(
                    f"custom_id '{name}' is not among the requests of {asked_in}; expected the input of the same batch"
                )
            body = _body(record, name)
            model, prompt = body.get("model"), prompts[name] if prompts is not None else None
            system = model if isinstance(model, str) else None
            answers[name] = Answered(name, _responses(body, name), prompt, system=system)
    return list(answers.values())


def _body(record: Mapping[str, Any], name: str) -> dict[str, Any]:
    response = record["response"] or {}
    body = response.get("body")
    failed = record.get("error") or dig(body, "error")
    status = response.get("status_code", 200)
    if failed or status != 200 or not isinstance(body, dict):
        reason = failed.get("message") or failed.get("code") or failed if isinstance(failed, dict) else failed
        found = f"an error ({shown(reason)})" if reason else f"status {status} and no body"
        raise DataError(f"request '{name}' has {found}; expected an answer: send it again, or remove the line")
    return body


def _responses(body: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The texts of a body of chat completions, of completions or of the Responses API."""
    contents = _contents(body)
    if not contents:
        raise DataError(
            f"request '{name}' has no answer (the body has {', '.join(body) or 'nothing'}); expected choices, as chat "
            "completions, completions and responses give"
        )
    texts = []
    for place, (content, instead) in enumerate(contents):
        text = text_of(content)
        if text is None:
            raise DataError(
                f"choice {place} of request '{name}' has no text (found {instead or describe_content(content)}); "
                "expected text: remove the line"
            )
        texts.append(text)
    return tuple(texts)


def _contents(body: Mapping[str, Any]) -> list[tuple[Any, str]]:
    """The content of each choice, and what it has instead of text if known."""
    choices = body.get("choices")
    if isinstance(choices, list):
        whole = [choice for choice in choices if isinstance(choice, dict)]
        whole.sort(key=lambda choice: place if isinstance(place := choice.get("index"), int) else 0)
        return [_choice(choice) for choice in whole]
    output = body.get("output")
    if isinstance(output, list):
        parts = [entry for entry in output if isinstance(entry, dict)]
        said = [entry.get("content") for entry in parts if entry.get("type") == "message"]
        flat = [part for content in said if isinstance(content, list) for part in content]
        return [(flat, "" if flat else f"output of type {', '.join(str(entry.get('type')) for entry in parts)}")]
    return []


def _choice(choice: Mapping[str, Any]) -> tuple[Any, str]:
    message = choice.get("message")
    if not isinstance(message, dict):
        return choice.get("text"), ""
    instead = "a refusal" if message.get("refusal") else "a tool call" if message.get("tool_calls") else ""
    return message.get("content"), instead


def _refuse_repeat(name: str, known: Collection[str], line: int) -> None:
    if name in known:
        raise DataError(
            f"custom_id '{name}' is a duplicate; expected each once: several answers to one request are its choices "
            "(n)",
            line=line,
        )
