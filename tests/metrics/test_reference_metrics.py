"""Measures against references: equal to the programs that define them, and to slow versions."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.translate.bleu_score import SmoothingFunction, corpus_bleu, sentence_bleu
from sacrebleu.metrics.bleu import BLEU

import nlgauge
from nlgauge.data.tables import Items, ResponseSets
from nlgauge.errors import DataError, ModelError, OptionError
from nlgauge.metrics.registry import BUNDLES, create_metric, create_metrics
from nlgauge.models.encoders.word_vectors import load_word_vectors
from tests.errors import raises
from tests.helpers import nlgauge as command
from tests.optional import skip_if_absent

SMOOTH = SmoothingFunction().method1
VECTORS = "the 1 0 0\ncat 0 1 0\ndog 0.2 0.9 -0.1\nsat -1 0.5 2\nmat -1 -0.5 -2\n, 0 0 1\n"
words = st.lists(st.sampled_from("abcd"), max_size=9).map(" ".join)
some_words = st.lists(st.sampled_from("abcd"), min_size=1, max_size=9).map(" ".join)
pairs = st.lists(st.tuples(words, st.lists(words, min_size=1, max_size=4)), min_size=1, max_size=6)
nonempty_pairs = st.lists(st.tuples(some_words, st.lists(some_words, min_size=1, max_size=4)), min_size=1, max_size=6)
vector_words = st.lists(st.sampled_from(["the", "cat", "dog", "sat", "mat", ",", "xyzzy"]), max_size=6).map(" ".join)
Pairs = list[tuple[str, list[str]]]
RougeScorer: Any = importlib.import_module("rouge_score.rouge_scorer").RougeScorer


def items_of(data: Pairs, **more: Any) -> Items:
    return Items.of([text for text, _ in data], references=[references for _, references in data], **more)


def values(spec: str, data: Pairs) -> list[float]:
    found = create_metric(spec).score(items_of(data)).per_item
    assert found is not None
    return [float(value) for value in found["value"]]


def value(spec: str, text: str, *references: str) -> float:
    return values(spec, [(text, list(references))])[0]


@pytest.fixture
def vectors(tmp_path: Path) -> str:
    (tmp_path / "vectors.txt").write_text(VECTORS)
    return str(tmp_path / "vectors.txt")


class TestBleu:
    @given(pairs, st.integers(1, 4))
    def test_items_equal_nltk_with_the_best_reference_and_with_all(self, data: Pairs, n: int) -> None:
        weights = (1 / n,) * n
        cut = [(text.split(), [r.split() for r in references]) for text, references in data]
        best = [max(sentence_bleu([r], text, weights, SMOOTH) for r in references) for text, references in cut]
        multi = [sentence_bleu(references, text, weights, SMOOTH) for text, references in cut]
        assert values(f"bleu:n={n},scale=1", data) == pytest.approx(best, abs=1e-12)
        assert values(f"bleu:n={n},refs=multi,scale=1", data) == pytest.approx(multi, abs=1e-12)

    @given(pairs, st.integers(1, 4))
    @pytest.mark.filterwarnings("ignore:(?s).*The hypothesis contains 0 counts")
    def test_a_corpus_equals_nltk(self, data: Pairs, n: int) -> None:
        references = [[r.split() for r in references] for _, references in data]
        texts = [text.split() for text, _ in data]
        for smooth, function in (("none", None), ("epsilon", SMOOTH)):
            expected = corpus_bleu(references, texts, (1 / n,) * n, function)
            found = create_metric(f"bleu:n={n},over=corpus,smooth={smooth}").score(items_of(data)).value
            assert found == pytest.approx(100 * expected, abs=1e-9)

    @given(nonempty_pairs, st.integers(1, 4))
    def test_a_corpus_equals_sacrebleu_where_short_texts_have_no_long_ngrams(self, data: Pairs, n: int) -> None:
        most = max(len(references) for _, references in data)
        by_position = [[r[i] if i < len(r) else None for _, r in data] for i in range(most)]
        theirs: Any = BLEU(tokenize="none", smooth_method="none", max_ngram_order=n, force=True)
        expected = theirs.corpus_score([text for text, _ in data], by_position).score
        found = create_metric(f"bleu:n={n},over=corpus,variant=nlg-eval").score(items_of(data)).value
        assert found == pytest.approx(expected, abs=1e-9)

    def test_a_corpus_equals_nlg_evals_program_when_every_order_matches(self) -> None:
        theirs = pytest.importorskip("pycocoevalcap.bleu.bleu_scorer").BleuScorer(n=4)
        data: Pairs = [("a b c d e", ["a b c d f", "b c d e"]), ("x", ["x y"]), ("c d", ["d c", "c"])]
        for text, references in data:
            theirs += (text, references)
        expected = theirs.compute_score(option="closest")[0]
        for n in range(1, 5):
            found = create_metric(f"bleu:n={n},over=corpus,variant=nlg-eval").score(items_of(data)).value
            assert found == pytest.approx(100 * expected[n - 1], abs=1e-6)
        assert create_metric("bleu:over=corpus").score(items_of(data)).value < 100 * expected[3]

    def test_options_that_clash_are_refused(self) -> None:
        for spec, option in (("over=corpus,refs=max", "refs"), ("variant=nlg-eval", "variant"), ("n=0", "n")):
            with pytest.raises(OptionError) as error:
                create_metric(f"bleu:{spec}")
            assert error.value.option == option

    def test_the_signature_says_what_auto_stands_for(self) -> None:
        shown = "bleu|n:4|over:item|refs:max|smooth:epsilon|tok:space|case:keep|scale:100"
        assert str(create_metric("bleu").signature).startswith(shown)
        assert "over:corpus|refs:multi|smooth:none" in str(create_metric("bleu:over=corpus").signature)


class TestRouge:
    @given(nonempty_pairs)
    def test_nlg_eval_is_the_best_precision_with_the_best_recall(self, data: Pairs) -> None:
        def slow(text: list[str], references: list[list[str]]) -> float:
            common = [slow_lcs(text, reference) for reference in references]
            precision = max(c / len(text) for c in common)
            recall = max(c / len(r) for c, r in zip(common, references, strict=True))
            return 2.44 * precision * recall / (recall + 1.44 * precision) if precision else 0.0

        expected = [slow(text.split(), [r.split() for r in references]) for text, references in data]
        assert values("rouge-l:scale=1", data) == pytest.approx(expected, abs=1e-12)

    @settings(max_examples=25)
    @given(nonempty_pairs)
    def test_nlg_eval_equals_the_program_itself(self, data: Pairs) -> None:
        theirs = pytest.importorskip("pycocoevalcap.rouge.rouge").Rouge()
        expected = [theirs.calc_score([text], references) for text, references in data]
        assert values("rouge-l:scale=1", data) == pytest.approx(expected, abs=1e-12)

    @given(st.text(max_size=30), st.lists(st.text(max_size=30), min_size=1, max_size=3))
    def test_rouge_score_equals_the_package_on_any_text(self, text: str, references: list[str]) -> None:
        expected = RougeScorer(["rougeL"], use_stemmer=False).score_multi(references, text)["rougeL"].fmeasure
        assert value("rouge-l:variant=rouge-score,scale=1", text, *references) == pytest.approx(expected, abs=1e-12)

    @given(pairs)
    def test_rouge_score_equals_the_package_on_few_words(self, data: Pairs) -> None:
        theirs = RougeScorer(["rougeL"], use_stemmer=False)
        expected = [theirs.score_multi(references, text)["rougeL"].fmeasure for text, references in data]
        assert values("rouge-l:variant=rouge-score,scale=1", data) == pytest.approx(expected, abs=1e-12)

    def test_the_packages_tokeniser_cannot_be_changed(self) -> None:
        with pytest.raises(OptionError, match="has its own tokeniser"):
            create_metric("rouge-l:variant=rouge-score,tok=word")


def slow_lcs(one: list[str], other: list[str]) -> int:
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            table[i + 1][j + 1] = table[i][j] + 1 if a == b else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


class TestWordVectors:
    def slow(self, kind: str, text: str, references: list[str]) -> float:
        table = {line.split()[0]: np.array(line.split()[1:], np.float32).astype(float) for line in VECTORS.splitlines()}

        def cosine(a: Any, b: Any) -> float:
            norm = float(np.linalg.norm(a) * np.linalg.norm(b))
            return float(a @ b) / norm if norm else 0.0

        def extreme(rows: list[Any]) -> Any:
            return np.array([min(column, key=lambda x: (-abs(x), x)) for column in np.array(rows).T])

        scores = []
        own = [table[word] for word in text.split() if word in table]
        for reference in references:
            other = [table[word] for word in reference.split() if word in table]
            if not own or not other:
                continue
            if kind == "embed-average":
                scores.append(cosine(np.mean(own, axis=0), np.mean(other, axis=0)))
            elif kind == "vector-extrema":
                scores.append(cosine(extreme(own), extreme(other)))
            else:
                forth = np.mean([max(cosine(a, b) for b in other) for a in own])
                back = np.mean([max(cosine(a, b) for b in own) for a in other])
                scores.append(float(forth + back) / 2)
        return max(scores, default=0.0)

    @pytest.mark.parametrize("kind", ["embed-average", "vector-extrema", "greedy"])
    def test_each_equals_its_slow_version(self, kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
        path = tmp_path_factory.mktemp("vectors") / "tiny.txt"
        path.write_text(VECTORS)

        @given(
            st.lists(st.tuples(vector_words, st.lists(vector_words, min_size=1, max_size=3)), min_size=1, max_size=5)
        )
        def check(data: Pairs) -> None:
            expected = [self.slow(kind, text, references) for text, references in data]
            assert values(f"{kind}:vectors={path},scale=1", data) == pytest.approx(expected, abs=1e-12)

        check()

    def test_unknown_words_are_skipped_and_case_is_folded(self, vectors: str) -> None:
        for kind in ("embed-average", "vector-extrema", "greedy"):
            assert value(f"{kind}:vectors={vectors}", "The xyzzy CAT", "the cat") == pytest.approx(100)
            assert value(f"{kind}:vectors={vectors}", "xyzzy", "the cat") == 0.0
            assert value(f"{kind}:vectors={vectors}", "the", "sat", "xyzzy") < 0.0 or kind == "greedy"

    def test_word2vecs_header_and_words_with_spaces_are_read(self, tmp_path: Path) -> None:
        (tmp_path / "v.txt").write_text("3 2\na 1 2\n. . 3 4\né 5 6\n")
        found = load_word_vectors(str(tmp_path / "v.txt"))
        assert dict(found.rows) == {"a": 0, ". .": 1, "é": 2}
        assert found.matrix.tolist() == [[1, 2], [3, 4], [5, 6]]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("a 1 2\nb 1\n", r"line 2: 'b 1'; expected a word and 2 numbers"),
            ("a 1 2\nb 1 x\n", r"line 2: 'b 1 x'; expected a word and 2 numbers"),
            ("a 1 2\nb 1 nan\n", r"line 2: 'b 1 nan'; expected"),
            ("", "holds no word vectors"),
        ],
    )
    def test_a_bad_file_is_an_error_that_says_where(self, tmp_path: Path, text: str, message: str) -> None:
        (tmp_path / "v.txt").write_text(text)
        with pytest.raises(DataError, match=message):
            load_word_vectors(str(tmp_path / "v.txt"))

    def test_other_vectors_under_the_same_signature_are_an_error(self, vectors: str) -> None:
        metric = create_metric(f"greedy:vectors={vectors}")
        spec = str(metric.signature)
        assert create_metric(spec).signature == metric.signature
        Path(vectors).write_text("the 1 2\n")
        with pytest.raises(OptionError, match="these are different word vectors"):
            _ = create_metric(spec).signature

    def test_vectors_that_were_not_fetched_are_an_error_with_the_command(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NLGAUGE_MODELS", str(tmp_path))
        with pytest.raises(ModelError, match="nlgauge models fetch glove-50d"):
            value("greedy", "the", "the")


def test_sentence_cosine_is_that_of_the_nearest_reference(minilm: str) -> None:
    assert value("sent-cos", "The cat sat.", "Stocks fell.", "The cat sat.") == pytest.approx(100, abs=1e-4)
    one, other = value("sent-cos", "A cat.", "A dog."), value("sent-cos", "A cat.", "Stocks fell.")
    assert value("sent-cos", "A cat.", "A dog.", "Stocks fell.") == max(one, other) == one > other


class TestContract:
    def test_empty_texts_and_references_score_nothing(self, vectors: str) -> None:
        for spec in (
            "bleu:n=2",
            "bleu:n=2,refs=multi",
            "rouge-l",
            "rouge-l:variant=rouge-score",
            f"greedy:vectors={vectors}",
        ):
            assert value(spec, "", "the cat") == 0.0
            assert value(spec, "the cat", "") == 0.0
            assert value(spec, "", "") == 0.0
            assert value(spec, "the cat", "", "the cat") > 50

    def test_the_order_of_references_does_not_matter(self, vectors: str) -> None:
        for spec in (
            "bleu",
            "bleu:refs=multi",
            "rouge-l",
            f"greedy:vectors={vectors}",
            f"vector-extrema:vectors={vectors}",
        ):
            several = ["the dog sat", "a cat", "the cat , sat"]
            assert value(spec, "the cat sat", *several) == value(spec, "the cat sat", *several[::-1])

    def test_texts_without_references_are_an_error_that_names_the_first(self, tmp_path: Path) -> None:
        message = "item 'x' has no reference, and bleu compares every text with its own references"
        with pytest.raises(DataError, match=message):
            nlgauge.score(Items.of(["a"], ids=["x"]), ["bleu"])
        with pytest.raises(DataError, match=message):
            nlgauge.score(ResponseSets.of([["a", "b"]], ids=["x"]), ["bleu"])
        mixed = Items.concat([items_of([("a", ["b"])], ids=["w"]), Items.of(["a"], ids=["x"])])
        with pytest.raises(DataError, match=message):
            nlgauge.score(mixed, ["bleu"])

    def test_transposed_or_ragged_references_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="2 lists of references for 3 texts"):
            Items.of(["a", "b", "c"], references=[["a", "b", "c"], ["a", "b", "c"]])
        (tmp_path / "texts.txt").write_text("a\nb\n")
        (tmp_path / "refs.txt").write_text("a\n")
        with pytest.raises(DataError, match=r"refs\.txt"):
            nlgauge.score(str(tmp_path / "texts.txt"), ["bleu"], aligned={"references": str(tmp_path / "refs.txt")})
        (tmp_path / "null.jsonl").write_text('{"text": "a", "references": ["a"]}\n{"text": "b", "references": null}\n')
        with raises(DataError, file="null.jsonl", line=2, column="references"):
            nlgauge.score(str(tmp_path / "null.jsonl"), ["bleu"])

    @pytest.mark.parametrize("write", ["list", "one", "wide", "aligned"])
    def test_every_way_to_give_references_gives_the_same_number(self, write: str, tmp_path: Path) -> None:
        texts, references = ["the cat sat", "a dog"], ["the cat sat down", "the dog"]
        expected = create_metric("bleu:n=2").score(items_of([(t, [r]) for t, r in zip(texts, references, strict=True)]))
        path = tmp_path / "texts.txt"
        options: dict[str, Any] = {"aligned": {"references": str(tmp_path / "refs.txt")}}
        if write == "aligned":
            path.write_text("\n".join(texts))
            (tmp_path / "refs.txt").write_text("\n".join(references))
        else:
            path, options = tmp_path / "texts.jsonl", {}
            ways: dict[str, Callable[[str], Any]] = {
                "list": lambda r: {"references": [r]},
                "one": lambda r: {"reference": r},
                "wide": lambda r: {"references_0": r},
            }
            rows = [{"text": t, **ways[write](r)} for t, r in zip(texts, references, strict=True)]
            path.write_text("\n".join(map(json.dumps, rows)))
        assert nlgauge.score(str(path), ["bleu:n=2"], **options)[0].value == expected.value

    def test_the_command_reads_references_from_tables(self, tmp_path: Path) -> None:
        data: Pairs = [("the cat sat", ["a cat sat", "the cat"]), ("a dog", ["the dog"])]
        joined = "".join(",".join([text, "\t".join(references)]) + "\n" for text, references in data)
        (tmp_path / "joined.csv").write_text(f"reply,gold\n{joined}")
        wide = "".join(",".join([text, *references, ""][:3]) + "\n" for text, references in data)
        (tmp_path / "wide.csv").write_text(f"reply,gold_1,gold_2\n{wide}")
        expected = create_metric("bleu:n=2").score(items_of(data)).value
        for name, more in (("joined.csv", ["--references-separator", r"\t"]), ("wide.csv", [])):
            options = (
                "--text",
                "reply",
                "--references",
                "gold",
                *more,
                "-m",
                "bleu:n=2",
                "-f",
                "json",
                "--no-progress",
            )
            done = command("score", name, *options, cwd=tmp_path, cache=tmp_path / "cache")
            assert done.code == 0, done.err
            assert json.loads(done.out)["scores"][0]["value"] == expected
        assert value("bleu:n=2", "the cat sat", "a cat sat\tthe cat") != value("bleu:n=2", data[0][0], *data[0][1])

    def test_systems_are_compared_item_by_item_and_as_corpora(self) -> None:
        rng = np.random.default_rng(1)

        references = [["the cat sat on the mat today", f"it was number {i}"] for i in range(80)]

        def sentence(quality: float) -> str:
            return " ".join(w if rng.random() < quality else "oops" for w in references[0][0].split())

        systems = [Items.of([sentence(q) for _ in references], references=references) for q in (0.6, 0.95)]
        for spec in ("bleu:n=2", "bleu:n=2,over=corpus", "rouge-l"):
            one, two = (nlgauge.score(system, [spec], confidence=True, resamples=200)[0] for system in systems)
            difference = nlgauge.compare(one, two)
            assert difference.difference == pytest.approx(two.value - one.value)
            assert difference.ci[0] > 0
            assert difference.p < 0.01

    def test_the_jackknife_leaves_out_what_it_says(self) -> None:
        data: Pairs = [("the cat sat", ["the cat"]), ("a dog ran off", ["a dog ran"]), ("so it goes", ["so it went"])]
        score = nlgauge.score(items_of(data, ids=["1", "2", "3"]), ["bleu:n=2,over=corpus"], confidence=True)[0]
        assert score.left_out is not None
        rest = [create_metric("bleu:n=2,over=corpus").score(items_of(data[:i] + data[i + 1 :])).value for i in range(3)]
        assert sorted(score.left_out.values) == pytest.approx(sorted(rest))


class TestDialogBundle:
    def test_parts_that_cannot_run_are_named_and_the_rest_runs(
        self, minilm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from nlgauge.models.fetch import resolve_model

        skip_if_absent("torch")  # which `sent-cos` requires, too
        (tmp_path / "minilm").symlink_to(resolve_model(minilm))
        monkeypatch.setenv("NLGAUGE_MODELS", str(tmp_path))
        monkeypatch.setenv("PATH", "")
        with pytest.warns(UserWarning, match="dialog: .* is skipped") as warned:
            scores = nlgauge.score(items_of([("the cat sat", ["the cat sat", "a cat"])]), ["dialog"])
        said = [str(warning.message) for warning in warned]
        assert [line.split()[1] for line in said] == ["meteor:over=corpus", "embed-average", "vector-extrema", "greedy"]
        assert "install a Java runtime" in said[0]
        assert "nlgauge models fetch glove-50d" in said[1]
        assert len(scores) == len(BUNDLES["dialog"]) - 4

    def test_every_part_is_a_metric_of_its_own(self) -> None:
        made = [create_metric(spec) for spec in BUNDLES["dialog"]]
        assert len({str(metric.signature) for metric in made}) == len(made)
        with pytest.raises(OptionError, match="'dialog' stands for several metrics"):
            create_metric("dialog")
        with pytest.raises(OptionError, match="'dialog' stands for several metrics"):
            create_metrics(["dialog:n=2"])

    def test_the_command_says_what_it_skips_on_standard_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "out.jsonl").write_text('{"text": "the cat sat", "references": ["the cat sat"]}\n' * 3)
        monkeypatch.setenv("NLGAUGE_MODELS", str(tmp_path / "no-models"))
        monkeypatch.setenv("PATH", "")
        done = command("score", "out.jsonl", "-m", "dialog", "-f", "csv", cwd=tmp_path, cache=tmp_path / "cache")
        assert done.code == 0, done.err
        assert "nlgauge: warning: dialog: meteor:over=corpus is skipped: meteor is a Java program" in done.err
        assert "dialog: sent-cos is skipped: model 'minilm' is not on this machine" in done.err
        assert "bleu" in done.out
        assert "rouge-l" in done.out


@pytest.fixture(scope="module")
def dailydialog(research_data: Path) -> Pairs:
    folder = research_data / "dailydialog_multiref"
    dialogues = map(json.loads, (folder / "multireftest.json").read_text().removesuffix("\n").split("\n"))
    references = [turn["responses"] for one in dialogues for turn in one["dialogue"] if "responses" in turn]
    return list(zip((folder / "hredf.txt").read_text().removesuffix("\n").split("\n"), references, strict=True))


class TestDailyDialog:
    """Gupta et al. (2019): every turn but a dialogue's last has five responses, the first of them the original."""

    def test_outputs_and_single_references_stand_in_the_order_of_the_turns(
        self, dailydialog: Pairs, research_data: Path
    ) -> None:
        single = (research_data / "dailydialog_multiref" / "test.tgt").read_text().removesuffix("\n").split("\n")
        assert [f"_go {references[0]} _eos" for _, references in dailydialog] == single
        assert len(single) == 6740
        assert {len(references) for _, references in dailydialog} == {5}

    @pytest.mark.parametrize("several", [False, True])
    @pytest.mark.filterwarnings("ignore:(?s).*The hypothesis contains 0 counts")
    def test_bleu_and_rouge_equal_the_other_programs(self, dailydialog: Pairs, several: bool) -> None:
        used = [(text, references if several else references[:1]) for text, references in dailydialog][::4]
        cut = [(text.split(), [r.split() for r in references]) for text, references in used]
        checks: list[tuple[str, Callable[[], float]]] = [
            (
                "bleu",
                lambda: math.fsum(max(sentence_bleu([r], t, smoothing_function=SMOOTH) for r in rs) for t, rs in cut),
            ),
            ("bleu:over=corpus", lambda: len(cut) * float(corpus_bleu([rs for _, rs in cut], [t for t, _ in cut]))),
        ]
        for spec, expected in checks:
            found = create_metric(spec).score(items_of(used)).value
            assert found == pytest.approx(100 * expected() / len(cut), abs=1e-9)
        theirs = pytest.importorskip("pycocoevalcap.rouge.rouge").Rouge()
        joined = [(" ".join(t), [" ".join(r) for r in rs]) for t, rs in cut if t and all(rs)]
        expected_values = [100 * theirs.calc_score([t], rs) for t, rs in joined]
        assert values("rouge-l", joined) == pytest.approx(expected_values, abs=1e-9)
