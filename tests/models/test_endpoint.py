"""Models behind an address: the same numbers, no request twice, and a clear word about whatever goes wrong."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nlgauge.engine.cache import Cache
from nlgauge.errors import ModelError, OptionError
from nlgauge.models.fetch import resolve_model
from nlgauge.models.language.base import Sampling, load_language_model
from nlgauge.models.language.causal import CausalModel
from nlgauge.models.language.endpoint import EndpointModel

KEY = "sk-do-not-show-me"
PROMPTS = ["The capital of France is", "He opened the door and saw"]
TEXTS = [[" Paris.", " a café in Zürich 🙂."], [" a dog.", ""]]


@dataclass
class Server:
    """A completions server on this machine, around a real model; `mood` says how it misbehaves."""

    url: str = ""
    mood: str = "well"
    asked: list[dict[str, Any]] = field(default_factory=list)
    failures: int = 0


def answer_to(model: CausalModel, request: dict[str, Any], mood: str) -> dict[str, Any]:
    """What an OpenAI-like server says: one that begins with a start token of its own, as most do."""
    prompt = request["prompt"]
    usage = {"total_tokens": len(model.encode([prompt])[0]) + request["max_tokens"]}
    if not request.get("echo") and "prompt_logprobs" not in request:
        sampling = Sampling(
            temperature=request["temperature"],
            top_p=request.get("top_p", 1.0),
            top_k=request.get("top_k", 0),
            max_new_tokens=request["max_tokens"],
            stop=tuple(request.get("stop", ())),
        )
        text = " " + model.generate([prompt], sampling, [request["seed"]])[0]
        if mood == "line breaks first":
            text = "\n\n" + text
        for stop in request.get("stop", ()):
            text = text.partition(stop)[0]
        return {"choices": [{"text": text}], "usage": usage}
    scored = model.score([""], [[prompt]])[0][0]
    pieces = model.tokenizer(prompt, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    tokens, values = list(scored.tokens), scored.logprobs.tolist()
    starts = [start for start, _ in pieces]
    if mood == "vllm":
        if "prompt_logprobs" not in request:
            return {"choices": [{"text": prompt, "logprobs": None}]}
        rows = [
            {str(i): {"logprob": v, "decoded_token": t}} for i, (t, v) in enumerate(zip(tokens, values, strict=True))
        ]
        return {"choices": [{"text": "", "prompt_logprobs": [None, *rows]}], "usage": usage}
    if mood == "no start":
        values[0] = None
    elif mood == "no offsets":
        tokens, values, starts = ["<s>", *tokens], [None, *values], []
    found = {"tokens": tokens, "token_logprobs": values, "text_offset": starts}
    if request["max_tokens"] == 1:
        found = {"tokens": [*tokens, "!"], "token_logprobs": [*values, -1.0], "text_offset": [*starts, len(prompt)]}
    return {"choices": [{"text": prompt, "logprobs": found}], "usage": usage}


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """A running server on this machine; gives its address."""
    import uvicorn

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    runner = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", ws="none"))
    thread = threading.Thread(target=runner.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not runner.started:
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        runner.should_exit = True
        thread.join(10)
        listener.close()


@pytest.fixture(scope="module")
def local() -> Iterator[CausalModel]:
    import torch

    threads = torch.get_num_threads()
    model = load_language_model(str(resolve_model("smollm2")), threads=1)
    assert isinstance(model, CausalModel)
    yield model
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def running(local: CausalModel) -> Iterator[Server]:
    from fastapi import FastAPI, Request, Response
    from fastapi.responses import JSONResponse, StreamingResponse

    server, app, turn = Server(), FastAPI(), threading.Lock()

    def models() -> dict[str, Any]:
        names = ["small", "large"] if server.mood == "two models" else ["small"]
        return {"data": [{"id": name} for name in names]}

    def trickle() -> Iterator[bytes]:
        for _ in range(40):
            yield b" "
            time.sleep(0.05)

    def complete(request: Request, asked: dict[str, Any]) -> Response:
        server.asked.append(asked)
        statuses = {"401": 401, "404": 404, "429": 429, "500": 500, "400": 400}
        if server.mood == "401" and request.headers.get("authorization") == f"Bearer {KEY}":
            return JSONResponse({"error": f"wrong key {KEY}"}, 401)
        if server.mood in statuses:
            return JSONResponse({"error": "no"}, statuses[server.mood])
        if server.failures:
            server.failures -= 1
            return JSONResponse({"error": "busy"}, 503, {"Retry-After": "0.2"})
        if server.mood == "one at least" and asked["max_tokens"] == 0:
            return JSONResponse({"error": "max_tokens must be at least 1"}, 400)
        if server.mood == "garbage":
            return Response(b"<html>Hello</html>")
        if server.mood == "no choices":
            return JSONResponse({"choices": []})
        if server.mood == "no logprobs":
            return JSONResponse({"choices": [{"text": asked["prompt"]}]})
        if server.mood == "slow":
            return StreamingResponse(trickle())
        if server.mood == "silent":
            time.sleep(1.5)
        with turn:
            return JSONResponse(answer_to(local, asked, server.mood))

    complete.__annotations__.update({"request": Request, "asked": dict[str, Any], "return": Response})
    app.add_api_route("/v1/models", models, methods=["GET"], response_model=None)
    app.add_api_route("/v1/completions", complete, methods=["POST"], response_model=None)
    with serving(app) as place:
        server.url = f"{place}/v1"
        yield server


@pytest.fixture
def server(running: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.delenv("NLGAUGE_API_KEY", raising=False)
    monkeypatch.delenv("NLGAUGE_MAX_TOKENS", raising=False)
    running.mood, running.failures = "well", 0
    running.asked.clear()
    return running


@pytest.fixture
def connect(server: Server, tmp_path: Path) -> Iterator[Any]:
    """Open connections with a cache of this test's own, and close them."""
    opened = []

    def open_model(**options: Any) -> EndpointModel:
        settings: dict[str, Any] = {"model": "small", "retries": 1, "pause": 0.01, "cache": Cache(tmp_path), **options}
        opened.append(EndpointModel(settings.pop("url", server.url), **settings))
        return opened[-1]

    yield open_model
    for model in opened:
        model.close()


def assert_same_numbers(remote: EndpointModel, local: CausalModel) -> None:
    for found, expected in zip(remote.score(PROMPTS, TEXTS), local.score(PROMPTS, TEXTS), strict=True):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-3)
            assert a.tokens == b.tokens


def test_an_endpoint_gives_the_numbers_of_the_model_behind_it(connect: Any, local: CausalModel) -> None:
    remote = connect()
    assert_same_numbers(remote, local)
    (alone,) = remote.score([""], [["They are happy."]])
    np.testing.assert_allclose(alone[0].logprobs, local.score([""], [["They are happy."]])[0][0].logprobs, atol=1e-3)
    assert remote.fingerprint == ""


@pytest.mark.parametrize("mood", ["one at least", "no offsets", "vllm"])
def test_dialects_give_the_same_numbers(mood: str, connect: Any, server: Server, local: CausalModel) -> None:
    server.mood = mood
    ascii_texts = [[" Paris.", " a small town."], [" a dog.", ""]]
    for found, expected in zip(connect().score(PROMPTS, ascii_texts), local.score(PROMPTS, ascii_texts), strict=True):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-3)
            assert a.tokens == b.tokens


def test_a_token_across_the_border_is_counted_to_the_text(connect: Any) -> None:
    (found,) = connect().score(["The capital of France is "], [["Paris."]])
    assert found[0].tokens == (" Paris", ".")


def test_an_endpoint_writes_what_the_model_behind_it_writes(connect: Any, local: CausalModel) -> None:
    remote = connect()
    for sampling in (Sampling(temperature=0, max_new_tokens=6), Sampling(top_p=0.9, top_k=50, max_new_tokens=6)):
        assert remote.generate(PROMPTS, sampling, [3, 4]) == local.generate(PROMPTS, sampling, [3, 4])
    with pytest.raises(OptionError, match="beam"):
        remote.generate(PROMPTS, Sampling(beams=2), [1, 2])


def test_an_endpoint_has_probabilities_of_its_model_only(connect: Any, local: CausalModel) -> None:
    remote = connect()
    texts = [[" Paris."], [" a dog."]]
    plain = remote.score_sampled(PROMPTS[:2], texts, Sampling())
    assert [[one.total for one in group] for group in plain] == [
        [pytest.approx(one.total, abs=1e-3) for one in group] for group in local.score(PROMPTS[:2], texts)
    ]
    with pytest.raises(
        ModelError, match=r"no probabilities under the sampling distribution \(temperature 0.7, top_p 1"
    ):
        remote.score_sampled(PROMPTS[:2], texts, Sampling(temperature=0.7))
    assert np.isnan(remote.sample(PROMPTS[:1], Sampling(max_new_tokens=3), [1])[0].logprob)


def test_an_endpoint_that_refuses_a_prompt_names_it(connect: Any, server: Server) -> None:
    server.mood = "400"
    with pytest.raises(ModelError, match=r"status 400.*the prompt was 'The capital.*leave it out"):
        connect().generate(PROMPTS[:1], Sampling(max_new_tokens=3), [1])


def test_line_breaks_that_a_server_begins_with_stop_nothing(connect: Any, server: Server, local: CausalModel) -> None:
    server.mood = "line breaks first"
    greedy: dict[str, Any] = {"temperature": 0, "max_new_tokens": 6}
    expected = local.generate(PROMPTS, Sampling(**greedy), [0, 0])
    assert all(expected)
    assert connect().generate(PROMPTS, Sampling(**greedy), [0, 0]) == expected
    assert connect().generate(PROMPTS, Sampling(**greedy, stop=("\n", "\nQ:", "END")), [0, 0]) == expected
    assert [asked.get("stop") for asked in server.asked] == [None, None, ["END"], ["END"]]


def test_a_second_run_asks_nothing(connect: Any, server: Server) -> None:
    first = connect()
    scores, texts = first.score(PROMPTS, TEXTS), first.generate(PROMPTS, Sampling(max_new_tokens=3), [1, 2])
    asked = len(server.asked)
    assert asked == 5
    again = connect()
    assert [[r.total for r in g] for g in again.score(PROMPTS, TEXTS)] == [[r.total for r in g] for g in scores]
    assert again.generate(PROMPTS, Sampling(max_new_tokens=3), [1, 2]) == texts
    assert len(server.asked) == asked
    assert (again.spent, again.requests) == (0, 0)
    assert again.generate(PROMPTS[:1], Sampling(max_new_tokens=3), [9]) is not None
    assert len(server.asked) == asked + 1


def test_a_run_that_was_cut_short_goes_on_where_it_stopped(connect: Any, server: Server) -> None:
    limited = connect(max_tokens=20, requests_at_once=1)
    with pytest.raises(ModelError, match=r"tokens spent.*at most 20.*NLGAUGE_MAX_TOKENS"):
        limited.score(PROMPTS, TEXTS)
    paid = len(server.asked)
    assert 0 < paid < 3
    connect().score(PROMPTS, TEXTS)
    assert len(server.asked) == 3


def test_the_limit_can_come_from_the_environment(connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NLGAUGE_MAX_TOKENS", "1")
    with pytest.raises(ModelError, match="at most 1"):
        connect().score(PROMPTS, TEXTS)
    monkeypatch.setenv("NLGAUGE_MAX_TOKENS", "many")
    with pytest.raises(OptionError, match="NLGAUGE_MAX_TOKENS is 'many'"):
        connect()


def test_trouble_that_passes_is_waited_out(connect: Any, server: Server) -> None:
    server.failures = 1
    begun = time.monotonic()
    assert len(connect().score(PROMPTS[:1], [[" Paris."]])[0][0]) == 2
    assert time.monotonic() - begun >= 0.2
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("mood", "message", "requests"),
    [
        ("401", r"status 401.*NLGAUGE_API_KEY \(it is not set\)", 1),
        ("404", r"status 404.*check the address and the model 'small'", 1),
        ("429", r"status 429.*fewer requests", 2),
        ("500", r"status 500.*check the server's log", 2),
        ("400", r"status 400.*what the server supports", 1),
        ("garbage", r"not a JSON object.*ends in /v1", 1),
        ("no choices", r"without choices", 1),
        ("no logprobs", r"without log-probabilities.*a local model", 2),
        ("no start", r"first token of a text.*start_context", 1),
    ],
)
def test_every_failure_is_a_clear_error(mood: str, message: str, requests: int, connect: Any, server: Server) -> None:
    server.mood = mood
    prompt = "" if mood == "no start" else "The capital of France is"
    with pytest.raises(ModelError, match=message) as caught:
        connect().score([prompt], [[" Paris."]])
    assert "; expected " in str(caught.value)
    assert len(server.asked) == requests


@pytest.mark.parametrize("mood", ["slow", "silent"])
def test_an_answer_that_never_ends_is_given_up(mood: str, connect: Any, server: Server) -> None:
    server.mood = mood
    begun = time.monotonic()
    with pytest.raises(ModelError, match=r"no complete answer within 0.4 s"):
        connect(timeout=0.4, retries=0).score(["The"], [[" end"]])
    assert time.monotonic() - begun < 1.4


def test_a_refused_connection_is_a_clear_error(connect: Any) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        with pytest.raises(ModelError, match=r"no connection.*start it, or check host and port"):
            connect(url=url).score(["The"], [[" end"]])


def test_the_key_is_sent_and_never_shown(connect: Any, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NLGAUGE_API_KEY", KEY)
    server.mood = "401"
    with pytest.raises(ModelError, match=r"wrong key ….*it is refused") as caught:
        connect().score(["The"], [[" end"]])
    shown = str(caught.value) + repr(caught.value) + repr(connect()) + connect().name
    assert KEY not in shown


def test_no_answer_is_kept_from_a_failure(connect: Any, server: Server) -> None:
    server.mood = "garbage"
    with pytest.raises(ModelError):
        connect().score(["The"], [[" end"]])
    server.mood = "well"
    assert len(connect().score(["The"], [[" end"]])[0][0]) == 1


def test_the_address_names_the_model_or_the_server_has_only_one(server: Server) -> None:
    for spec in (server.url, f"{server.url}#small", f"{server.url}/#small"):
        model = load_language_model(spec)
        assert isinstance(model, EndpointModel)
        assert model.name == f"{server.url}#small"
        model.close()
    server.mood = "two models"
    with pytest.raises(ModelError, match=r"2 models \(small, large\)"):
        load_language_model(server.url)
    for wrong in ("http://", f"http://user:{KEY}@127.0.0.1/v1"):
        with pytest.raises(OptionError, match="NLGAUGE_API_KEY") as caught:
            load_language_model(wrong)
        assert KEY not in str(caught.value)


def test_the_end_of_a_text_needs_a_named_end_token(connect: Any, local: CausalModel) -> None:
    with pytest.raises(ModelError, match="no end token"):
        connect().score(["The"], [[" end"]], with_end=True)
    (found,) = connect(end_token="<|endoftext|>").score(["The"], [[" end"]], with_end=True)  # noqa: S106
    (expected,) = local.score(["The"], [[" end"]], with_end=True)
    np.testing.assert_allclose(found[0].logprobs, expected[0].logprobs, atol=1e-3)


def test_answers_are_kept_as_the_server_gave_them(connect: Any, tmp_path: Path) -> None:
    import polars as pl

    connect().score(["The"], [[" end"]])
    (entry,) = (tmp_path / "results").rglob("*.entry")
    kept = pl.read_ipc(entry.read_bytes()[16:])
    assert json.loads(kept["answer"][0])["choices"][0]["logprobs"]["tokens"] == ["The", " end"]
    assert "NLGAUGE_API_KEY" not in os.environ
