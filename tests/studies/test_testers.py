"""Testers of content: from contexts to labelled sets, and what is said where nothing can be written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations, count
from pathlib import Path
from typing import Any

import pytest

from nlgauge.data.columns import Reading
from nlgauge.errors import DataError, OptionError, UnknownName
from nlgauge.models.language.endpoint import EndpointModel
from nlgauge.models.language.ngram import NgramModel
from nlgauge.models.shared import load_shared
from nlgauge.perturb.base import draw_for
from nlgauge.studies.diversity.content import ContentTest
from nlgauge.studies.testers.base import NEAR_COPY, TESTERS, Context, LeftOut, Response, WrittenPair
from nlgauge.studies.testers.build import ContentTestPlan, build_content_test, write_sets
from nlgauge.studies.testers.contexts import read_responded
from nlgauge.studies.testers.data_tester import DataTester, different, farthest, some_changed
from nlgauge.studies.testers.model_tester import ModelTester
from nlgauge.text.near_copies import likeness, normalised
from tests.errors import raises
from tests.helpers import COMMAND, environment, nlgauge
from tests.models.test_endpoint import serving

SYSTEMS = ("system_a.jsonl", "system_b.jsonl")
NUMBERS = count()
BIG = "They are away until Tuesday, so I think that he is lonely, and I could not sleep because the dog was sad."


def contexts_of(examples: Path, most: int) -> list[Context]:
    return read_responded([str(examples / name) for name in SYSTEMS], Reading())[:most]


def rows_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class TestContexts:
    def test_files_share_contexts_and_systems_are_writers(self, examples: Path) -> None:
        contexts = contexts_of(examples, 99)
        assert len(contexts) == 45
        assert {len(one.responses) for one in contexts} == {12}
        assert Counter(response.writer for response in contexts[0].responses) == {"a": 6, "b": 6}

    def test_single_texts_plain_contexts_and_records_of_contexts_are_read(self, tmp_path: Path) -> None:
        (tmp_path / "texts.csv").write_text("id,context,text,who\n1,Hi?,Yes.,ann\n2,Hi?,No.,ben\n3,Who?,Me.,ann\n")
        found = read_responded([str(tmp_path / "texts.csv")], Reading(system="who"))
        assert found[0] == Context("1", "Hi?", (Response("Yes.", "ann"), Response("No.", "ben")))
        (tmp_path / "plain.txt").write_text("Hi?\nWho?\nHi?\n")
        assert [one.text for one in read_responded([str(tmp_path / "plain.txt")], Reading())] == ["Hi?", "Who?"]
        (tmp_path / "records.jsonl").write_text('{"prompt": "Hi?"}\n{"prompt": "Who?"}\n')
        assert [one.responses for one in read_responded([str(tmp_path / "records.jsonl")], Reading())] == [(), ()]

    def test_an_id_of_two_contexts_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "a.jsonl").write_text('{"id": "1", "context": "Hi?"}\n')
        (tmp_path / "b.jsonl").write_text('{"id": "1", "context": "Who?"}\n')
        with raises(DataError, column="id"):
            read_responded([str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")], Reading())


@pytest.fixture(scope="module")
def written(examples: Path) -> list[tuple[Context, WrittenPair | LeftOut]]:
    contexts = contexts_of(examples, 6)
    return list(zip(contexts, DataTester().write(contexts, 5, 12345), strict=True))


class TestDataTester:
    def test_high_sets_are_responses_of_the_data_and_low_sets_are_one_response_and_its_versions(
        self, written: list[tuple[Context, WrittenPair | LeftOut]]
    ) -> None:
        pairs = [(context, made) for context, made in written if isinstance(made, WrittenPair)]
        assert len(pairs) >= 2
        for context, made in pairs:
            known = {response.text for response in context.responses}
            assert set(made.high) <= known
            assert made.low[0] in known
            assert not set(made.low[1:]) & known
            assert len({normalised(text) for text in made.low}) == 5
            assert all(likeness(one, other) < NEAR_COPY for one, other in combinations(made.high, 2))
            assert made.high_by == "a, b"
            assert ", rephrased by " in made.low_by

    def test_what_is_written_to_a_context_depends_on_it_and_the_seed_alone(
        self, written: list[tuple[Context, WrittenPair | LeftOut]]
    ) -> None:
        context, made = next(one for one in written if isinstance(one[1], WrittenPair))
        assert DataTester().write([context], 5, 12345) == [made]
        assert DataTester().write([context], 5, 99) != [made]

    def test_contexts_without_enough_responses_are_left_out_and_said(self) -> None:
        few = Context("1", "Hello?", tuple(Response(text) for text in (BIG, BIG.lower(), "Hello to you!", "")))
        assert DataTester().write([few], 3, 1) == [
            LeftOut("too few responses that differ", "2 of 4 to 'Hello?', 3 expected")
        ]
        short = Context("2", "Hi?", (Response("Hm."), Response("Ouch!"), Response("Wow wow.")))
        (left,) = DataTester().write([short], 3, 1)
        assert left == LeftOut("no response that can be said in so many ways", "to 'Hi?'")
        error = DataTester().none_written([left])
        assert "wrote both sets for none of 1 contexts: no response that can be said in so many ways" in str(error)

    def test_data_without_enough_responses_is_refused_before_any_work(self) -> None:
        with pytest.raises(DataError, match=r"requires responses to each context.*another tester, such as model"):
            DataTester().prepare([Context("1", "Hi?")], 5)
        with pytest.raises(DataError, match=r"found at most 1 responses to a context; a high set requires 5.*_per_set"):
            DataTester().prepare([Context("1", "Hi?", (Response("No."),))], 5)

    def test_responses_are_by_as_many_writers_as_possible(self) -> None:
        texts = ["one apple", "two pears tonight", "three old dogs", "four green lamps", "five loud bells"]
        responses = [Response(text, who) for text, who in zip(texts, "aaabc", strict=True)]
        assert {one.writer for one in different(responses, 3, draw_for(1))} == {"a", "b", "c"}
        assert len(different(responses, 9, draw_for(1))) == 5

    def test_phrases_change_whole_or_not_at_all(self) -> None:
        old, new = "I need some help with the old car", "I am in need of some assistance with the ancient car"
        seen = {some_changed(old, new, draw_for(seed)) for seed in range(50)}
        assert new in seen
        assert "I need some help with the ancient car" in seen
        for text in seen:
            assert ("am in need of some assistance" in text) != ("I need some help" in text)

    def test_the_versions_that_differ_most_are_taken(self) -> None:
        versions = ["I liked it a lot indeed", "I liked it very much", "Nothing ever pleased me more"]
        assert farthest("I liked it a lot", versions, 3) == [
            "I liked it a lot", "Nothing ever pleased me more", "I liked it very much"
        ]  # fmt: skip


@dataclass
class Chat:
    """A chat server; `mood` says what it answers."""

    mood: str = "well"
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)

    @property
    def spec(self) -> str:
        return f"{self.url}/v1#chat-{next(NUMBERS)}"

    def answer(self, message: str, seed: int) -> dict[str, Any]:
        if self.mood == "refuses":
            return {"content": None, "refusal": "I can't help with that request."}
        if self.mood == "refuses in words":
            return {"content": "As an AI language model, I cannot provide this."}
        if self.mood == "copies":
            return {"content": "The same as ever, my friend."}
        if self.mood == "refuses one" and "swim" in message:
            return {"content": None, "refusal": "No swimming."}
        draw = draw_for(seed, message)
        words = ["boats", "letters", "gardens", "winter", "bread", "music", "engines", "neighbours", "clouds", "silver"]
        return {"content": f"- {' '.join(draw.sample(words, 6))}.\n"}


@contextmanager
def chatting(mood: str = "well") -> Iterator[Chat]:
    from fastapi import FastAPI, Response
    from fastapi.responses import JSONResponse

    chat, app, turn = Chat(mood), FastAPI(), threading.Lock()

    def complete(asked: dict[str, Any]) -> Response:
        with turn:
            chat.asked.append(asked)
        message = asked["messages"][1]["content"]
        if chat.mood == "rejects" or (chat.mood == "rejects one" and "swim" in message):
            return JSONResponse({"error": {"code": "content_filter", "message": "The prompt was filtered."}}, 400)
        said = {"role": "assistant", **chat.answer(message, asked["seed"])}
        return JSONResponse({"choices": [{"index": 0, "message": said, "finish_reason": "stop"}]})

    complete.__annotations__.update({"asked": dict[str, Any], "return": Response})
    app.add_api_route("/v1/chat/completions", complete, methods=["POST"], response_model=None)
    with serving(app) as place:
        chat.url = place
        yield chat


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[Chat]:
    monkeypatch.delenv("NLGAUGE_API_KEY", raising=False)
    monkeypatch.delenv("NLGAUGE_MAX_TOKENS", raising=False)
    with chatting() as server:
        yield server


CONTEXTS = [Context("c1", "Do you want to go for a swim {base}?"), Context("c2", "Where are my keys?")]


def write(tester: ModelTester, contexts: Sequence[Context] = CONTEXTS) -> list[WrittenPair | LeftOut]:
    found = tester.write(contexts, 4, 7)
    model = load_shared(tester.model)
    if isinstance(model, EndpointModel):
        model.close()
    return found


class TestModelTester:
    def test_an_endpoint_writes_both_sets_and_is_shown_what_is_taken(self, chat: Chat) -> None:
        tester = ModelTester(model=chat.spec)
        for made, context in zip(write(tester), CONTEXTS, strict=True):
            assert isinstance(made, WrittenPair)
            assert made.low[0] == made.high[0]
            assert made.high_by == made.low_by == tester.model
            assert len(made.high) == len(made.low) == 4
            messages = [one["messages"][1]["content"] for one in chat.asked]
            mine = [text for text in messages if context.text in text]
            assert [text for text in mine if "Write one response" in text and made.high[2] in text]
            assert [text for text in mine if f"Somebody responded to it:\n\n{made.high[0]}" in text]

    def test_the_same_seed_gives_the_same_sets_whatever_is_beside_them(self, chat: Chat) -> None:
        tester = ModelTester(model=chat.spec)
        assert write(tester)[1:] == tester.write(CONTEXTS[1:], 4, 7)

    @pytest.mark.parametrize(
        ("mood", "reason", "detail"),
        [
            ("refuses", "refused by the model", "'I can't help with that request.'"),
            ("refuses in words", "refused by the model", "'As an AI language model, I cannot provide this.'"),
            ("copies", "only copies of what was written before", "'The same as ever, my friend.'"),
        ],
    )
    def test_an_endpoint_that_does_not_do_the_task_is_quoted(
        self, chat: Chat, mood: str, reason: str, detail: str
    ) -> None:
        chat.mood = mood
        tester = ModelTester(model=chat.spec, tries=2)
        found = write(tester)
        assert found == [LeftOut(reason, detail)] * 2
        message = str(tester.none_written([one for one in found if isinstance(one, LeftOut)]))
        assert (
            f"wrote both sets for none of 2 contexts: {reason} ({detail}); expected short texts that differ" in message
        )

    @pytest.mark.parametrize("mood", ["refuses one", "rejects one"])
    def test_a_refusal_leaves_out_its_context_alone(self, chat: Chat, mood: str) -> None:
        chat.mood = mood
        refused, made = write(ModelTester(model=chat.spec, tries=2))
        assert isinstance(refused, LeftOut)
        assert refused.reason == ("rejected by the server" if mood == "rejects one" else "refused by the model")
        assert isinstance(made, WrittenPair)

    def test_a_server_that_rejects_every_prompt_is_quoted_and_not_asked_again(self, chat: Chat) -> None:
        chat.mood = "rejects"
        tester = ModelTester(model=chat.spec)
        found = write(tester)
        assert {one.reason for one in found if isinstance(one, LeftOut)} == {"rejected by the server"}
        assert "The prompt was filtered." in str(
            tester.none_written([one for one in found if isinstance(one, LeftOut)])
        )
        assert len(chat.asked) <= 4

    def test_a_local_model_writes_too(self, examples: Path, tmp_path: Path) -> None:
        texts = [response.text for one in contexts_of(examples, 45) for response in one.responses]
        model = NgramModel.train(texts)
        model.save(tmp_path / "ngram")
        tester = ModelTester(model=f"ngram:{tmp_path / 'ngram'}", tries=30)
        contexts = contexts_of(examples, 3)
        found = tester.write(contexts, 3, 1)
        assert all(isinstance(one, WrittenPair) for one in found)
        assert found == tester.write(contexts, 3, 1)
        assert found[0] != tester.write(contexts, 3, 2)[0]

    @pytest.mark.parametrize(
        ("options", "option"),
        [
            ({"tries": 0}, "tries"),
            ({"temperature": 0.0}, "temperature"),
            ({"rephrase_temperature": -1.0}, "rephrase_temperature"),
        ],
    )
    def test_options_that_make_no_sense_are_refused(self, options: dict[str, Any], option: str) -> None:
        with pytest.raises(OptionError) as error:
            ModelTester(**options)
        assert error.value.option == option

    def test_retrieval_is_no_tester(self) -> None:
        with pytest.raises(OptionError, match="retrieval writes nothing"):
            ModelTester(model="bm25:x.jsonl").prepare(CONTEXTS, 5)


class TestBuild:
    def test_sets_nuggets_and_the_table_come_from_contexts(self, examples: Path, tmp_path: Path) -> None:
        plan = ContentTestPlan(metrics=("distinct", "cos-sim"))
        result = build_content_test(contexts_of(examples, 8), plan, tmp_path / "test")
        rows = rows_in(tmp_path / "test" / "data.jsonl")
        assert Counter(row["content_diversity"] for row in rows) == {0: len(rows) // 2, 1: len(rows) // 2}
        assert {(row["tester"], len(row["responses"])) for row in rows} == {("data", 5)}
        assert len({row["id"] for row in rows}) == len(rows)
        again = ContentTest(metrics=("distinct", "cos-sim"), significance=False).run(
            str(tmp_path / "test" / "data.jsonl")
        )
        assert again.rows[0]["spearman"] == result.row("distinct", "data")["spearman"]
        assert any(note.startswith("data: sets to ") and "left out" in note for note in result.notes)
        assert any("were written by: data" in note for note in again.notes)
        assert "tester:data" in str(again.signature)

    def test_form_that_follows_the_label_is_said(self, examples: Path, tmp_path: Path) -> None:
        result = build_content_test(
            contexts_of(examples, 24), ContentTestPlan(metrics=("distinct",)), tmp_path / "test"
        )
        assert result.row("distinct", "data")["spearman"] > 0.5
        assert any(note.startswith("data: form follows the label: rho of distinct is 0.") for note in result.notes)
        assert any("sets are nuggets, whose form both classes share: too few" in note for note in result.notes)

    def test_few_sets_make_small_groups_of_similar_form(self) -> None:
        sizes = [ContentTestPlan().nuggets_of(sets).group_size for sets in (10, 44, 90, 2000)]
        assert sizes == [4, 4, 9, 40]
        assert ContentTestPlan(group_size=12).nuggets_of(2000).group_size == 12
        with pytest.raises(OptionError, match="group_size=1; expected 0"):
            ContentTestPlan(group_size=1)

    def test_a_second_call_computes_nothing_again_and_other_options_are_refused(
        self, examples: Path, tmp_path: Path
    ) -> None:
        contexts, plan = contexts_of(examples, 4), ContentTestPlan()
        (tester,) = plan.testers()
        first = write_sets(tester, contexts, plan, tmp_path)
        began = time.monotonic()
        assert write_sets(tester, contexts, plan, tmp_path).sets.equals(first.sets)
        assert time.monotonic() - began < 1.0
        with pytest.raises(OptionError, match="holds another run"):
            write_sets(tester, contexts, ContentTestPlan(seed=2), tmp_path)

    def test_a_killed_run_continues_and_gives_the_same_files(self, tmp_path: Path) -> None:
        (tmp_path / "contexts.txt").write_text("".join(f"What about {number} things?\n" for number in range(64)))
        with chatting() as chat:
            arguments = ["content-test", "contexts.txt", "--tester", f"model:model={chat.spec}", "-m", "distinct"]
            whole = nlgauge(*arguments, "--folder", "whole", cwd=tmp_path, cache=tmp_path / "cache 1")
            assert whole.code == 0, whole.err
            command = [*COMMAND, *arguments, "--folder", "killed"]
            process = subprocess.Popen(command, cwd=tmp_path, env=environment(tmp_path / "cache 2"))
            pieces = tmp_path / "killed" / "run" / "model" / "pieces"
            while process.poll() is None and not (pieces / "000000").exists():
                time.sleep(0.01)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            assert not (tmp_path / "killed" / "model.jsonl").exists()
            again = nlgauge(*arguments, "--folder", "killed", cwd=tmp_path, cache=tmp_path / "cache 2")
            assert again.code == 0, again.err
        for name in ("model.jsonl", "model-nuggets.jsonl"):
            assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["contexts.txt", "--tester", "data"], "the tester 'data' requires responses to each context"),
            (["contexts.txt", "--tester", "modle"], "unknown tester 'modle'; did you mean 'model'?"),
            (["contexts.txt", "--tester", "model:modell=x"], "modell"),
            (["contexts.txt", "--tester", "data", "--tester", "data"], "--tester data is duplicated"),
            (["contexts.txt", "--responses-per-set", "1"], "--responses-per-set 1; expected 2 or more"),
            (["nothing.txt"], "nothing.txt"),
            (["contexts.txt", "--tester", "model:model=no-such-model"], "no-such-model"),
        ],
    )
    def test_bad_input_ends_with_a_message(self, tmp_path: Path, arguments: list[str], said: str) -> None:
        (tmp_path / "contexts.txt").write_text("Hello?\nWho is there?\n")
        done = nlgauge("content-test", *arguments, "--folder", "out", cwd=tmp_path, cache=tmp_path / "cache")
        assert done.code == 2
        assert said in done.err
        assert "Traceback" not in done.err

    def test_testers_are_named_with_their_options(self) -> None:
        tester = TESTERS.create("model:model=http://127.0.0.1:1/v1#x,tries=3")
        assert tester == ModelTester(model="http://127.0.0.1:1/v1#x", tries=3)
        assert TESTERS.create(str(tester.signature)) == tester
        with pytest.raises(UnknownName, match="People are testers on the annotation site: nlgauge annotate new"):
            TESTERS.create("people")
