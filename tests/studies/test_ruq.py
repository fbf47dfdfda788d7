"""RUQ: its arithmetic, its options, every back-end, and what is made of it."""

from __future__ import annotations

import json
import math
import signal
import sqlite3
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from nlgauge.data.tables import Items, ResponseSets
from nlgauge.errors import DataError, ModelError, OptionError
from nlgauge.models.language.base import load_language_model
from nlgauge.models.language.ngram import NgramModel
from nlgauge.studies.ruq.options import ALL, GENERICS, Normalise, Ties
from nlgauge.studies.ruq.score import Ruq, row_of
from nlgauge.text.tokens import Tokenizer
from tests.helpers import COMMAND, Outcome, environment
from tests.helpers import nlgauge as command
from tests.models.test_language_models import tokenizer_in

IDK, WHAT = GENERICS
TRAINING = [
    "Do you like tea? Yes, I like tea.",
    "Where is the cat? I don't know.",
    "Where is the dog? I don't know.",
    "What shall we do? I don't know what to do.",
    "Do you like the dog? Yes, I like the dog.",
    "Where are you? I am at home.",
]
PAIRS = [
    ("Do you like tea?", "Yes, I like tea."),
    ("Where is the cat?", "It is at home."),
    ("Where is the dog?", "i  don't know."),
    ("What shall we do?", "Zebras graze quietly."),
    ("Where are you?", "I am at home."),
]
NORMALISATIONS: tuple[Normalise, ...] = ("tokens", "tokens+end", "characters", "none")


def items(pairs: Sequence[tuple[str, str]] = PAIRS) -> Items:
    return Items.of([text for _, text in pairs], contexts=[context for context, _ in pairs])


def write_pairs(path: Path, pairs: Sequence[tuple[str, str]] = PAIRS) -> Path:
    path.write_text("".join(json.dumps({"context": context, "text": text}) + "\n" for context, text in pairs))
    return path


@pytest.fixture(scope="module")
def ngram(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("ngram") / "model"
    NgramModel.train(TRAINING).save(folder)
    return f"ngram:{folder}"


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NLGAUGE_CACHE", str(tmp_path / "fresh"))
    return tmp_path / "fresh"


def slow_tokens(model: NgramModel, prompt: str, text: str, *, with_end: bool) -> list[float]:
    """Log-probabilities of the words of a text, one after the other."""
    words = Tokenizer("word")(pl.Series([text])).tokens(0)
    found = []
    for i, word in enumerate([*words, "</s>"] if with_end else words):
        after = model.next_probabilities(" ".join([prompt, *words[:i]]))
        found.append(math.log(after.get(word, after["<unk>"])))
    return found


def slow_score(model: NgramModel, prompt: str, text: str, normalise: Normalise) -> float:
    logs = slow_tokens(model, prompt, text, with_end=normalise == "tokens+end")
    return sum(logs) / {"characters": len(text), "none": 1}.get(normalise, len(logs))


@pytest.mark.parametrize("normalise", NORMALISATIONS)
@pytest.mark.parametrize(("ties", "worth"), [("lose", 0.0), ("win", 1.0), ("half", 0.5)])
def test_ruq_equals_a_slow_one(ngram: str, normalise: Normalise, ties: Ties, worth: float) -> None:
    model = NgramModel.train(TRAINING)
    study = Ruq(model=ngram, test=items(), normalise=normalise, ties=ties).run()
    won: dict[str, list[float]] = {IDK: [], WHAT: [], ALL: []}
    for context, text in PAIRS:
        reference = slow_score(model, context, text, normalise)
        rivals = {one: slow_score(model, context, one, normalise) for one in GENERICS}
        if text.casefold().split() == IDK.casefold().split():
            rivals[IDK] = reference
        rivals[ALL] = max(rivals.values())
        for one, rival in rivals.items():
            won[one].append(worth if reference == rival else float(reference > rival))
    assert [row["generic"] for row in study.rows] == [IDK, WHAT, ALL]
    for row in study.rows:
        assert row["ruq"] == pytest.approx(np.mean(won[row["generic"]]))
        assert row["ruq_ci"][0] <= row["ruq"] <= row["ruq_ci"][1]
        assert (row["split"], row["n"], row["excluded"]) == ("test", 5, 0)
    assert row_of(study, IDK, "test")["ties"] == 1
    for place, (context, text) in enumerate(PAIRS):
        scores = study.tables["items"].row(place, named=True)
        assert scores["reference_score"] == pytest.approx(slow_score(model, context, text, normalise))
        assert scores[f"score of {WHAT}"] == pytest.approx(slow_score(model, context, WHAT, normalise))
    assert f"normalise:{normalise}|" in str(study.signature)
    assert f"ties:{ties}|" in str(study.signature)
    assert study.facts["end"] == ("model" if normalise == "tokens+end" else "none")


def test_a_reference_that_is_the_generic_is_a_tie_and_this_is_said(ngram: str) -> None:
    study = Ruq(model=ngram, test=items(), generics=[IDK]).run()
    assert [row["generic"] for row in study.rows] == [IDK]
    assert study.tables["items"]["winner"].to_list()[2] == "tie"
    assert any(f"1 of 5 references of test are {IDK!r}: ties, counted as lost" in note for note in study.notes)


def test_the_final_full_stop_of_a_generic_matters_and_stands_in_the_signature(ngram: str) -> None:
    with_stop, without = (Ruq(model=ngram, test=items(), generics=[text]).run() for text in (IDK, IDK.rstrip(".")))
    assert with_stop.rows[0]["generic_score"] > without.rows[0]["generic_score"]
    assert f"generics:{IDK}|" in str(with_stop.signature)
    assert f"generics:{IDK.rstrip('.')}|" in str(without.signature)


def test_positions_are_means_over_texts(ngram: str) -> None:
    model = NgramModel.train(TRAINING)
    study = Ruq(model=ngram, train=items(PAIRS[:3]), test=items(), beam=1).run()
    assert study.tables["positions"]["kind"].unique(maintain_order=True).to_list() == ["reference", IDK, WHAT, "greedy"]
    logs = [slow_tokens(model, context, text, with_end=True) for context, text in PAIRS]
    for position in range(max(map(len, logs))):
        here = [row[position] for row in logs if len(row) > position]
        found = (
            study.tables["positions"].filter(split="test", kind="reference", position=position + 1).row(0, named=True)
        )
        assert (found["mean"], found["count"]) == (pytest.approx(np.mean(here)), len(here))
        assert found["sd"] == (pytest.approx(np.std(here, ddof=1)) if len(here) > 1 else None)
    drawn = study.chart().to_dict()
    assert [panel["title"]["text"] for panel in drawn["hconcat"]] == ["train", "test"]
    shown = json.dumps(drawn)
    assert all(word in shown for word in ("greedy", "standard error", "texts", IDK))


def test_repeated_prompts_are_resampled_together(ngram: str) -> None:
    repeated = [(context, text) for context, text in PAIRS[:4] for _ in range(20)]
    apart = [(f"{number} {context}", text) for number, (context, text) in enumerate(repeated)]
    width = []
    for pairs in (repeated, apart):
        low, high = Ruq(model=ngram, test=items(pairs), resamples=400).run().rows[0]["ruq_ci"]
        width.append(high - low)
    assert width[0] > 2 * width[1]


def test_the_most_common_outputs_are_found_and_added(ngram: str) -> None:
    pairs = [*PAIRS, ("Where is the bird?", "It is here."), ("Where is the house?", "Over there.")]
    outputs = Ruq(model=ngram, train=items(pairs), beam=1).run().tables["items"]["output"].to_list()
    study = Ruq(model=ngram, train=items(pairs), test=items(), find_generics=2, generics=["Yes."]).run()
    found = [row["generic"] for row in study.rows if row["split"] == "test"]
    most, count = Counter(text for text in outputs if text).most_common(1)[0]
    assert (found[0], found[1], found[-1]) == ("Yes.", most, ALL)
    assert f"{most!r} ({count})" in study.notes[0]
    assert "find_generics:2|" in str(study.signature)
    assert study.facts["found"].startswith(most)
    assert [
        row["generic"] for row in Ruq(model=ngram, train=items(pairs), find_generics=1, generics=[]).run().rows
    ] == [most]


def keys_in(cache: Path, store: str, table: str = "entries") -> list[bytes]:
    """What a store remembers: `logprobs` has a key a text that was scored, `prompts` a key an output."""
    for file in (cache / "stores").glob(f"{store}-*.sqlite"):
        with closing(sqlite3.connect(file)) as database:
            if database.execute("SELECT COUNT(*) FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]:
                return [key for (key,) in database.execute(f"SELECT key FROM {table}")]  # noqa: S608
    return []


def stored(cache: Path) -> int:
    """How many texts have been scored so far."""
    return len(keys_in(cache, "logprobs"))


def test_a_run_goes_on_where_another_stopped(ngram: str, fresh_cache: Path, tmp_path: Path) -> None:
    pairs = [(f"{context} {i}", text) for i in range(30) for context, text in PAIRS]
    whole = Ruq(model=ngram, test=items(pairs), limit=70).run()
    assert stored(fresh_cache) == 70 * 3
    resumed = Ruq(model=ngram, test=items(pairs)).run()
    assert stored(fresh_cache) == 150 * 3
    assert Ruq(model=ngram, test=items(pairs), limit=70).run().rows == whole.rows
    assert Ruq(model=ngram, test=items(pairs), ties="half").run().rows[0]["n"] == 150
    assert stored(fresh_cache) == 150 * 3
    (store,) = (fresh_cache / "stores").glob("logprobs-*.sqlite")
    store.unlink()
    again = Ruq(model=ngram, test=items(pairs)).run()
    assert again.rows == resumed.rows
    assert again.tables["items"].equals(resumed.tables["items"])


def test_smollm2_in_packs_equals_one_by_one(smollm2: str, fresh_cache: Path) -> None:
    study = Ruq(model=smollm2, test=items(), beam=2, max_new_tokens=6).run()
    model = load_language_model(smollm2)
    outputs = study.tables["items"]["output"].to_list()
    for place, (context, text) in enumerate(PAIRS):
        row = study.tables["items"].row(place, named=True)
        scores = (row["reference_score"], row[f"score of {IDK}"], row[f"score of {WHAT}"], row["output_score"])
        for one, found in zip((text, IDK, WHAT, outputs[place]), scores, strict=True):
            [[alone]] = model.score([context], [[f" {one}" if one else ""]], with_end=True)
            assert found == pytest.approx(alone.total / len(alone), abs=1e-4)
    assert "beam" in study.tables["positions"]["kind"].to_list()
    assert "outputs:beam-2-of-6-tokens" in str(study.signature)


def test_a_chat_template_has_no_space_after_it_and_an_end_of_its_own(smollm2: str) -> None:
    template, end = "<|im_start|>user\n{context}<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>"
    study = Ruq(model=smollm2, test=items(PAIRS[:2]), template=template, end=end, generics=[IDK]).run()
    [[alone]] = load_language_model(smollm2).score([template.replace("{context}", PAIRS[0][0])], [[IDK + end]])
    assert alone.tokens[-1] == end
    assert study.tables["items"][f"score of {IDK}"][0] == pytest.approx(alone.total / len(alone), abs=1e-4)
    assert study.facts["join"] == "none"
    assert f"end:{end.replace('|', '%7C')}|" in str(study.signature)


def test_a_small_model_prefers_not_to_know_most_replies_of_dailydialog(research_data: Path, smollm2: str) -> None:
    pairs: list[tuple[str, str]] = []
    for line in (research_data / "dailydialog" / "dialogues_test.txt").read_text(encoding="utf-8").splitlines()[:10]:
        pairs += pairwise(turn.strip() for turn in line.split("__eou__") if turn.strip())
    study = Ruq(model=smollm2, test=items(pairs), limit=30).run()
    assert {row["n"] for row in study.rows} == {30}
    assert study.row(IDK)["ruq"] < 0.5
    assert study.row(ALL)["ruq"] <= min(study.row(IDK)["ruq"], study.row(WHAT)["ruq"])


class WordServer(BaseHTTPRequestHandler):
    """A completions server whose every token, a word with the space before it, has log-probability minus its length."""

    def do_GET(self) -> None:
        self.answer({"data": [{"id": "words"}]} if self.path.endswith("/models") else {})

    def do_POST(self) -> None:
        prompt = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["prompt"]
        starts = [i for i, letter in enumerate(prompt) if letter in " \n" or i == 0]
        tokens = [prompt[i:j] for i, j in zip(starts, [*starts[1:], len(prompt)], strict=True)]
        logs = [None, *(-float(len(token)) for token in tokens[1:])]
        found = {"tokens": tokens, "token_logprobs": logs, "text_offset": starts}
        self.answer({"choices": [{"text": prompt, "logprobs": found}], "usage": {"total_tokens": len(tokens)}})

    def answer(self, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), WordServer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1#words&dialect=openai"
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_endpoint_has_no_end_token_but_can_be_told_an_end(endpoint: str, fresh_cache: Path) -> None:
    with pytest.raises(ModelError, match=r"has no end token .* use normalise=tokens, or say what ends a response"):
        Ruq(model=endpoint, test=items()).run()
    study = Ruq(model=endpoint, test=items(), normalise="tokens").run()
    assert study.tables["items"][f"score of {IDK}"].to_list() == [-len(f" {IDK}") / 3] * 5
    ended = Ruq(model=endpoint, test=items(), end="\n").run()
    assert ended.tables["items"][f"score of {IDK}"].to_list() == [-len(f" {IDK}\n") / 4] * 5


def tiny(kind: str, folder: Path) -> str:
    """A model of random weights that sees 32 tokens."""
    import torch
    import transformers

    tokenizer_in(folder)
    library: Any = transformers
    special: dict[str, Any] = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 3}
    with torch.random.fork_rng():
        torch.manual_seed(1)
        if kind == "seq2seq":
            sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2, "n_positions": 32}
            config = library.T5Config(vocab_size=120, decoder_start_token_id=0, **sizes, **special)
            model = library.T5ForConditionalGeneration(config)
        else:
            config = library.GPT2Config(vocab_size=120, n_embd=16, n_layer=1, n_head=2, n_positions=32, **special)
            model = library.GPT2LMHeadModel(config)
        model.save_pretrained(folder, safe_serialization=True)
    return str(folder)


@pytest.mark.parametrize("kind", ["seq2seq", "causal"])
def test_prompts_beyond_the_window_are_counted(kind: str, tmp_path: Path, fresh_cache: Path) -> None:
    model = tiny(kind, tmp_path)
    pairs = [("a", "b"), ("c", "a"), ("one long prompt " * 20, "b"), ("another long prompt " * 20, "d")]
    study = Ruq(model=model, test=items(pairs), generics=["e"]).run()
    assert any("2 of 4 prompts of test are beyond the model's window" in note for note in study.notes)
    assert study.rows[0]["n"] == 4
    assert not any("window" in note for note in Ruq(model=model, test=items(pairs[:2]), generics=["e"]).run().notes)


BAD_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"normalise": "words"}, "normalise"),
    ({"ties": "draw"}, "ties"),
    ({"generics": []}, "generics"),
    ({"generics": [" "]}, "generics"),
    ({"generics": ["all"]}, "generics"),
    ({"template": "x"}, "template"),
    ({"normalise": "tokens", "end": "\n"}, "end"),
    ({"limit": 1}, "limit"),
    ({"limit": -1}, "limit"),
    ({"beam": -1}, "beam"),
    ({"find_generics": True}, "find_generics"),
]


@pytest.mark.parametrize(("options", "name"), BAD_OPTIONS)
def test_bad_options_are_refused(ngram: str, options: dict[str, Any], name: str) -> None:
    with pytest.raises(OptionError) as error:
        Ruq(model=ngram, test=items(), **options)
    assert error.value.option == name
    with pytest.raises(OptionError, match="beam"):
        Ruq(model=ngram, test=items(), beam=3).run()


def test_a_loaded_model_equals_a_named_one_and_splits_have_any_name(ngram: str) -> None:
    loaded = load_language_model(ngram)
    named, found = Ruq(model=ngram, test=items()).run(), Ruq(model=loaded).run({"valid": items()})
    assert [row["ruq"] for row in found.rows] == [row["ruq"] for row in named.rows]
    assert {row["split"] for row in found.rows} == {"valid"}
    assert f"model:{loaded.name}@{loaded.fingerprint}|" in str(found.signature)
    assert Ruq.from_options(named.signature.options).signature == Ruq(model=ngram).signature


def test_the_sentence_follows_from_the_interval(ngram: str) -> None:
    said = []
    for prompt, reference in (PAIRS[0], PAIRS[2]):
        same = [(f"{prompt} {number}", reference) for number in range(9)]
        said.append(Ruq(model=ngram, test=items(same), generics=[IDK]).run().sentence)
    assert "on more than half of the prompts: RUQ 1.000 [0.7" in said[0]
    assert "on fewer than half of the prompts: RUQ 0.000 [0.000, 0.2" in said[1]
    alone = Ruq(model=ngram, test=items(PAIRS[:1] * 2), generics=[IDK]).run().sentence
    assert "one prompt gives no interval" in alone
    assert "it is open whether" in Ruq(model=ngram, test=items(PAIRS[::2]), generics=[IDK]).run().sentence


def test_bad_data_is_refused(ngram: str) -> None:
    with pytest.raises(OptionError, match="no data; expected train=, test= or both"):
        Ruq(model=ngram).run()
    with pytest.raises(OptionError, match="a split is called ''"):
        Ruq(model=ngram).run({"": items()})
    data: Any
    for data, message in (
        (items([("a", " "), ("b", "c")]), "item '0' has no reference"),
        (items([("a", "b"), (" ", "c")]), "item '1' has an empty prompt; leave it out, or use a template"),
        (items(PAIRS[:1]), "1 prompts; expected at least 2"),
        (Items.of(["a", "b"]), "found columns id, text"),
        (ResponseSets.of([["a"], ["b"]]), "found ResponseSets"),
    ):
        with pytest.raises(DataError, match=message):
            Ruq(model=ngram, test=data).run()
    study = Ruq(model=ngram, test=items([("a", "b"), ("", "c")]), template="Q: {context} A:").run()
    assert row_of(study, IDK, "test")["n"] == 2
    with pytest.raises(KeyError, match="0 rows"):
        row_of(study, IDK, "validation")


def killed_when(arguments: Sequence[str], folder: Path, cache: Path, store: str, keys: int) -> None:
    """Start the command, and kill it as soon as a store has so many keys."""
    nowhere = subprocess.DEVNULL
    started = [*COMMAND, *arguments]
    with subprocess.Popen(started, cwd=folder, env=environment(cache), stdout=nowhere, stderr=nowhere) as running:
        try:
            while len(keys_in(cache, store)) < keys:
                assert running.poll() is None
                time.sleep(0.002)
        finally:
            running.send_signal(signal.SIGKILL)
    assert running.returncode == -signal.SIGKILL


def note_additions(cache: Path, store: str) -> None:
    """Have a store keep a list of what is written to it from now on."""
    (file,) = (cache / "stores").glob(f"{store}-*.sqlite")
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("CREATE TABLE added (key BLOB)")
        database.execute("CREATE TRIGGER note AFTER INSERT ON entries BEGIN INSERT INTO added VALUES (NEW.key); END")


def test_runs_killed_while_writing_and_while_scoring_lose_nothing(tmp_path: Path) -> None:
    model, many = tiny("causal", tmp_path / "model"), 1000
    write_pairs(tmp_path / "test.jsonl", [(f"q{i}", f"a{i % 7}") for i in range(many)])
    arguments = [
        "study", "ruq", "--model", model, "--test", "test.jsonl", "--beam", "2", "--max-new-tokens", "6",
        "--threads", "1", "--format", "json",
    ]  # fmt: skip
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    undisturbed = command(*arguments, cwd=tmp_path, cache=whole)
    assert undisturbed.code == 0, undisturbed.err
    known: dict[str, set[bytes]] = {}
    for store in ("prompts", "logprobs"):
        killed_when(arguments, tmp_path, broken, store, 100)
        known[store] = set(keys_in(broken, store))
        assert 100 <= len(known[store]) < many
        assert bool(keys_in(broken, "logprobs")) == (store == "logprobs")
        note_additions(broken, store)
    resumed = command(*arguments, cwd=tmp_path, cache=broken)
    assert resumed.out == undisturbed.out
    for store, before in known.items():
        everything = set(keys_in(whole, store))
        assert set(keys_in(broken, store)) == everything
        assert sorted(keys_in(broken, store, "added")) == sorted(everything - before)


def run(folder: Path, *arguments: str) -> Outcome:
    return command("study", *arguments, cwd=folder, cache=folder / "cache")


def test_the_command(ngram: str, tmp_path: Path) -> None:
    write_pairs(tmp_path / "train.jsonl", PAIRS[:3])
    write_pairs(tmp_path / "test.jsonl")
    (tmp_path / "generics.txt").write_text("Yes.\n\nNo.\n")
    done = run(
        tmp_path, "ruq", "--model", ngram, "--train", "train.jsonl", "--test", "test.jsonl", "--generic", IDK,
        "--generics", "generics.txt", "--beam", "1", "--normalise", "tokens", "--ties", "half", "--limit", "4",
        "--template", "{context}\\n", "--items", "items.csv", "--chart", "ruq.html", "--format", "json",
    )  # fmt: skip
    assert done.code == 0, done.err
    document = json.loads(done.out)
    expected = Ruq(
        model=ngram,
        train=tmp_path / "train.jsonl",
        test=pl.read_ndjson(tmp_path / "test.jsonl"),
        beam=1,
        generics=[IDK, "Yes.", "No."],
        normalise="tokens",
        ties="half",
        limit=4,
        template="{context}\n",
    ).run()
    assert document["study"] == "ruq"
    assert document["rows"] == json.loads(expected.to_json())["rows"]
    assert [(row["split"], row["n"]) for row in document["rows"]] == [("train", 3)] * 4 + [("test", 4)] * 4
    assert pl.read_csv(tmp_path / "items.csv").height == 7
    assert "vegaEmbed" in (tmp_path / "ruq.html").read_text()
    shown = run(tmp_path, "ruq", "--model", ngram, "--test", "test.jsonl")
    assert all(words in shown.out for words in ("RUQ interval", "note: 1 of 5 references"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "expected --train, --test or both"),
        (("--test", "nothing.jsonl"), "nothing.jsonl"),
        (("--test", "test.jsonl", "--items", "items.txt"), "ending in .jsonl"),
        (("--test", "test.jsonl", "--limit", "-1"), "--limit -1; expected 0 (all prompts), or at least 2"),
        (("--test", "test.jsonl", "--normalise", "odd"), "expected one of tokens+end, tokens"),
        (("--test", "empty.jsonl"), "empty.jsonl, column 'text': item '1' has no reference"),
    ],
)
def test_bad_usage_is_an_error_that_says_what_to_do(
    ngram: str, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    write_pairs(tmp_path / "test.jsonl")
    write_pairs(tmp_path / "empty.jsonl", [("a", ""), ("b", "c")])
    done = run(tmp_path, "ruq", "--model", ngram, *arguments)
    assert done.code == 2
    assert done.out == ""
    assert message in done.err
    assert "Traceback" not in done.err
