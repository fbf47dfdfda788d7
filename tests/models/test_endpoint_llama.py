"""llama.cpp's dialect: the same numbers token by token, against a server that keeps to its documentation."""

from __future__ import annotations

import codecs
import threading
from collections.abc import Iterator
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
from tests.models.test_endpoint import serving

KEY = "sk-do-not-show-me"
PROMPT = "The capital of France is"
DEFAULTS = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "repeat_penalty": 1.0}
DEFAULT_ORDER = ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"]


def byte_letters() -> dict[str, int]:
    """The letters that byte-level tokenisers write bytes with."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}


@dataclass
class LlamaLike:
    """What `llama-server` does with a request, around a model of transformers; `mood` says how it misbehaves."""

    model: CausalModel
    url: str = ""
    mood: str = "well"
    asked: list[dict[str, Any]] = field(default_factory=list)
    authorised: set[str | None] = field(default_factory=set)
    failures: int = 0
    letters: dict[str, int] = field(default_factory=byte_letters)
    turn: threading.Lock = field(default_factory=threading.Lock)

    def piece(self, token: int) -> bytes:
        raw = self.model.tokenizer.convert_ids_to_tokens(token)
        if raw in self.model.tokenizer.all_special_tokens or raw.startswith("<|"):
            return str(raw).encode()
        return bytes(self.letters[letter] for letter in raw)

    def tokenize(self, asked: dict[str, Any]) -> dict[str, Any]:
        start = [self.model.start_context] if asked.get("add_special") and self.mood != "no start" else []
        ids = [token for text in (*start, asked["content"]) for token in self.model.encode([text])[0]]
        if not asked.get("with_pieces") or self.mood == "no pieces":
            return {"tokens": ids}
        shown: list[Any] = []
        for token in ids:
            piece = self.piece(token)
            try:
                shown.append({"id": token, "piece": piece.decode()})
            except UnicodeDecodeError:
                shown.append({"id": token, "piece": list(piece)})
        return {"tokens": shown}

    def logprobs(self, ids: list[int]) -> Any:
        import torch

        with self.turn, torch.no_grad():
            return torch.log_softmax(self.model.model(torch.tensor([ids])).logits[0, -1].double(), -1).numpy()

    def complete(self, asked: dict[str, Any]) -> dict[str, Any]:
        prompt = asked["prompt"]
        ids = list(prompt) if isinstance(prompt, list) else list(self.model.encode([prompt])[0])
        if not asked.get("n_probs"):
            return self.generate(asked, prompt, len(ids))
        written = []
        while True:
            values = self.logprobs(ids)
            biased = values.copy()
            for token, bias in asked.get("logit_bias", []):
                biased[token] += bias
            chosen = int(biased.argmax())
            written.append(chosen)
            text = b"".join(map(self.piece, written))
            decoder = codecs.getincrementaldecoder("utf-8")(errors="ignore")
            decoder.decode(text)
            if not decoder.getstate()[0]:
                break
            ids = [*ids, chosen]  # a token that ends inside a character: its log-probabilities are not reported
        most = min(asked["n_probs"], 20 if self.mood == "capped" else len(values))
        best = np.argsort(-values, kind="stable")[:most]

        def row(token: int) -> dict[str, Any]:
            value = values[token] if values[token] > -87 else -3.4028234663852886e38
            return {"id": token, "token": self.piece(token).decode(errors="ignore"), "logprob": value}

        content = [{**row(chosen), "top_logprobs": [row(int(token)) for token in best]}]
        usage = {"prompt_tokens": len(ids), "completion_tokens": len(written), "total_tokens": len(ids) + len(written)}
        logprobs = None if self.mood == "no n_probs" else {"content": content}
        return {"choices": [{"text": text.decode(errors="ignore"), "logprobs": logprobs}], "usage": usage}

    def generate(self, asked: dict[str, Any], prompt: str, length: int) -> dict[str, Any]:
        """Sampling after the settings that are in force: the request's, else the server's own."""
        order = asked.get("samplers", DEFAULT_ORDER)
        settings = {**DEFAULTS, **asked}
        assert settings["min_p"] == 0
        assert settings["repeat_penalty"] == 1
        assert [name for name in order if name in ("temperature", "top_k", "top_p")] == order
        assert 0 <= settings["seed"] < 2**32 - 1
        sampling = Sampling(
            temperature=settings["temperature"],
            top_k=settings["top_k"] if settings["temperature"] else 0,
            top_p=settings["top_p"],
            max_new_tokens=asked["max_tokens"],
            stop=tuple(asked.get("stop", ())),
        )
        with self.turn:
            text = " " + self.model.generate([prompt], sampling, [settings["seed"]])[0]
        return {"choices": [{"text": text, "logprobs": None}], "usage": {"total_tokens": length + 1}}


@pytest.fixture(scope="module")
def running() -> Iterator[LlamaLike]:
    import torch
    from fastapi import FastAPI, Request, Response
    from fastapi.responses import JSONResponse

    threads = torch.get_num_threads()
    model = load_language_model(str(resolve_model("smollm2")), threads=1)
    assert isinstance(model, CausalModel)
    server, app = LlamaLike(model), FastAPI()

    def props(request: Request) -> Response:
        server.authorised.add(request.headers.get("authorization"))
        if server.mood == "web page":
            return Response(b"<html>Hello</html>")
        return JSONResponse({"default_generation_settings": {"n_ctx": 2048, "params": DEFAULTS}, "total_slots": 1})

    def models() -> dict[str, Any]:
        size = model.model.config.vocab_size
        return {"data": [{"id": "small", "meta": None if server.mood == "no meta" else {"n_vocab": size}}]}

    def tokenize(request: Request, asked: dict[str, Any]) -> Response:
        server.authorised.add(request.headers.get("authorization"))
        return JSONResponse(server.tokenize(asked))

    def complete(request: Request, asked: dict[str, Any]) -> Response:
        server.asked.append(asked)
        server.authorised.add(request.headers.get("authorization"))
        if asked.get("echo"):
            return JSONResponse({"error": {"code": 400, "message": "Only no echo is supported"}}, 400)
        if server.mood == "401":
            return JSONResponse({"error": f"wrong key {KEY}"}, 401)
        if server.failures:
            server.failures -= 1
            return JSONResponse({"error": {"code": 503, "message": "Loading model"}}, 503)
        return JSONResponse(server.complete(asked))

    for route in (props, tokenize, complete):
        route.__annotations__.update({"request": Request, "return": Response})
        if route is not props:
            route.__annotations__["asked"] = dict[str, Any]
    app.add_api_route("/props", props, methods=["GET"], response_model=None)
    app.add_api_route("/v1/models", models, methods=["GET"], response_model=None)
    app.add_api_route("/tokenize", tokenize, methods=["POST"], response_model=None)
    app.add_api_route("/v1/completions", complete, methods=["POST"], response_model=None)
    with serving(app) as place:
        server.url = f"{place}/v1"
        yield server
    torch.set_num_threads(threads)


@pytest.fixture
def server(running: LlamaLike, monkeypatch: pytest.MonkeyPatch) -> LlamaLike:
    monkeypatch.delenv("NLGAUGE_API_KEY", raising=False)
    monkeypatch.delenv("NLGAUGE_MAX_TOKENS", raising=False)
    running.mood, running.failures = "well", 0
    running.asked.clear()
    running.authorised.clear()
    return running


@pytest.fixture
def connect(server: LlamaLike, tmp_path: Path) -> Iterator[Any]:
    """Open connections with a cache of this test's own, and close them."""
    opened = []

    def open_model(spec: str = "#small", **options: Any) -> EndpointModel:
        settings: dict[str, Any] = {"retries": 1, "pause": 0.01, "cache": Cache(tmp_path), **options}
        opened.append(EndpointModel.at(server.url + spec, **settings))
        return opened[-1]

    yield open_model
    for model in opened:
        model.close()


def test_llama_cpp_gives_the_numbers_of_the_model_behind_it(connect: Any, server: LlamaLike) -> None:
    prompts = [PROMPT, "He opened the door and saw", ""]
    texts = [[" Paris.", " a café 日本語 🙂."], [" a dog.", ""], ["They are"]]
    for prompt, group, found in zip(prompts, texts, connect().score(prompts, texts), strict=True):
        for text, scored in zip(group, found, strict=True):
            expected = server.model.score([prompt], [[text]])[0][0]
            np.testing.assert_allclose(scored.logprobs, expected.logprobs, atol=1e-4)
            assert scored.tokens == expected.tokens
    assert all(isinstance(asked["prompt"], list) and asked["n_predict"] == 1 for asked in server.asked)
    assert all(asked["cache_prompt"] and not asked["post_sampling_probs"] for asked in server.asked)


def test_a_rare_token_is_found_by_asking_for_more(connect: Any, server: LlamaLike) -> None:
    (found,) = connect().score([PROMPT], [[" photosynthesis"]])
    (expected,) = server.model.score([PROMPT], [[" photosynthesis"]])
    np.testing.assert_allclose(found[0].logprobs, expected[0].logprobs, atol=1e-4)
    assert [asked["n_probs"] for asked in server.asked] == [128, 4096, 49152]


def test_a_token_across_the_border_is_counted_to_the_text(connect: Any) -> None:
    (found,) = connect().score([PROMPT + " "], [["Paris."]])
    assert found[0].tokens == (" Paris", ".")


def test_the_end_of_a_text_can_be_scored(connect: Any, server: LlamaLike) -> None:
    (found,) = connect(end_token="<|endoftext|>").score(["The"], [[" end"]], with_end=True)  # noqa: S106
    (expected,) = server.model.score(["The"], [[" end"]], with_end=True)
    np.testing.assert_allclose(found[0].logprobs, expected[0].logprobs, atol=1e-4)


def test_sampling_means_what_it_says(connect: Any, server: LlamaLike) -> None:
    remote, local = connect(), server.model
    for sampling in (
        Sampling(temperature=0, max_new_tokens=4),
        Sampling(max_new_tokens=4),
        Sampling(temperature=1.3, top_p=0.9, top_k=50, max_new_tokens=4),
    ):
        assert remote.generate([PROMPT], sampling, [3]) == local.generate([PROMPT], sampling, [3])
    assert remote.generate([PROMPT], Sampling(max_new_tokens=1), [2**32 - 1]) is not None
    assert [(a["top_k"], a["top_p"]) for a in server.asked] == [(0, 1.0), (0, 1.0), (50, 0.9), (0, 1.0)]
    assert not any("stop" in asked for asked in server.asked)


def test_a_second_run_asks_nothing(connect: Any, server: LlamaLike) -> None:
    first = connect()
    scores, texts = first.score([PROMPT], [[" Paris."]]), first.generate([PROMPT], Sampling(max_new_tokens=2), [1])
    assert len(server.asked) == 3
    again = connect()
    assert again.score([PROMPT], [[" Paris."]])[0][0].total == scores[0][0].total
    assert again.generate([PROMPT], Sampling(max_new_tokens=2), [1]) == texts
    assert (again.spent, again.requests) == (0, 0)
    assert len(server.asked) == 3


def test_a_text_that_was_cut_short_goes_on_where_it_stopped(connect: Any, server: LlamaLike) -> None:
    with pytest.raises(ModelError, match=r"tokens spent.*at most 20.*NLGAUGE_MAX_TOKENS"):
        connect(max_tokens=20).score([PROMPT], [[" Paris, the city"]])
    paid = len(server.asked)
    assert 0 < paid < 4
    whole = connect()
    (found,) = whole.score([PROMPT], [[" Paris, the city"]])
    assert len(found[0]) == len(server.asked) == 4
    assert whole.spent == sum(len(asked["prompt"]) + 1 for asked in server.asked[paid:])


def test_trouble_that_passes_is_waited_out(connect: Any, server: LlamaLike) -> None:
    server.failures = 1
    assert len(connect().score([PROMPT], [[" Paris"]])[0][0]) == 1
    assert len(server.asked) == 2


def test_the_key_is_sent_and_never_shown(connect: Any, server: LlamaLike, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NLGAUGE_API_KEY", KEY)
    server.mood = "401"
    with pytest.raises(ModelError, match="it is refused") as caught:
        connect().score([PROMPT], [[" Paris"]])
    assert KEY not in str(caught.value)
    assert server.authorised == {f"Bearer {KEY}"}


@pytest.mark.parametrize(
    ("mood", "message", "requests"),
    [
        ("no n_probs", r"without the log-probabilities of one next token; expected .*top_logprobs.*a newer", 1),
        ("capped", r"for the token 19173 \(' photosynthesis'\) among the 21 given; expected it among the 128", 1),
        ("no pieces", r"tokens without their pieces; expected ids and pieces from /tokenize", 0),
        ("no start", r"first token of a text; expected a context before it.*start_context", 0),
    ],
)
def test_every_failure_is_a_clear_error(
    mood: str, message: str, requests: int, connect: Any, server: LlamaLike
) -> None:
    server.mood = mood
    with pytest.raises(ModelError, match=message):
        connect().score(["" if mood == "no start" else PROMPT], [[" photosynthesis"]])
    assert len(server.asked) == requests


def test_a_server_that_does_not_tell_its_vocabulary_is_asked_for_all_of_it(connect: Any, server: LlamaLike) -> None:
    server.mood = "no meta"
    assert len(connect().score([PROMPT], [[" photosynthesis"]])[0][0]) == 1
    assert server.asked[-1]["n_probs"] >= 49152


def test_the_dialect_can_be_said(connect: Any, server: LlamaLike) -> None:
    server.mood = "web page"
    with pytest.raises(ModelError, match="Only no echo is supported"):
        connect().score([PROMPT], [[" Paris"]])
    assert len(connect("#small&dialect=llama.cpp").score([PROMPT], [[" Paris"]])[0][0]) == 1
    assert connect("#&dialect=llama.cpp").name == f"{server.url}#small"
    with pytest.raises(OptionError, match=r"dialect is 'llama'; expected one of auto, openai, llama\.cpp"):
        connect("#small&dialect=llama")
