"""The calls that people bring from `evaluate` and scikit-learn, and trackers of experiments."""

from __future__ import annotations

import importlib
import importlib.util
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import nlgauge
from nlgauge.errors import DataError, MissingExtra, OutputError, UnknownName
from nlgauge.interop import TRACKERS, check_tracker, log_scores
from nlgauge.report.tables import results_document
from tests import helpers
from tests.errors import raises

TEXTS = ["the cat sat on the mat", "a dog barked"]
REFERENCES = [["a cat sat on the mat", "the cat was sitting"], ["the dog barked loudly"]]


def test_compute_gives_what_score_gives() -> None:
    sets = [["yes", "no", "maybe"], ["ok", "ok", "sure"]]
    expected = nlgauge.score(sets, ["distinct:n=1"])[0]
    assert nlgauge.load("distinct:n=1").compute(predictions=sets) == {
        "distinct": expected.value,
        "n": 2,
        "signature": str(expected.signature),
    }


def test_references_belong_to_predictions() -> None:
    bleu = nlgauge.load("bleu:n=1")
    both = bleu.compute(predictions=TEXTS, references=REFERENCES)
    assert both["bleu"] == nlgauge.score(nlgauge.Items.of(TEXTS, references=REFERENCES), ["bleu:n=1"])[0].value
    assert bleu.compute(predictions=TEXTS, references=TEXTS)["bleu"] == pytest.approx(100)
    with pytest.raises(DataError, match="1 lists of references for 2 texts"):
        bleu.compute(predictions=TEXTS, references=REFERENCES[:1])
    with raises(DataError, option="references"):
        bleu.compute(predictions=TEXTS)


def test_compute_refuses_what_makes_no_sense() -> None:
    with pytest.raises(DataError, match="lists of predictions together with references"):
        nlgauge.load("distinct").compute(predictions=[TEXTS], references=REFERENCES[:1])
    with raises(DataError, option="one_set"):
        nlgauge.load("distinct").compute(predictions=TEXTS)
    with pytest.raises(DataError, match="no rows"):
        nlgauge.load("distinct").compute(predictions=[])
    with raises(UnknownName, name="distnct", nearest="distinct"):
        nlgauge.load("distnct")


class Parrot:
    """A model that answers each prompt with the end of it."""

    def __init__(self, words: int = 1) -> None:
        self.words = words

    def fit(self, X: list[str], y: list[str]) -> Parrot:
        return self

    def predict(self, X: list[str]) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
        return np.array([" ".join(text.split()[-self.words :]) for text in X])


def test_a_scorer_is_greater_for_what_is_better() -> None:
    prompts, answers = ["say one two", "say three four"], ["one two", "three four"]
    good = nlgauge.as_scorer("bleu:n=1")
    assert good(Parrot(2), prompts, answers) == pytest.approx(100)
    assert good(Parrot(1), prompts, answers) < 100
    varied, alike = Sets([["a b", "c d"]]), Sets([["a b", "a b"]])
    for spec in ("self-bleu:n=1", "distinct:n=1"):
        assert nlgauge.as_scorer(spec)(varied, prompts) > nlgauge.as_scorer(spec)(alike, prompts)


class Sets:
    """A model that writes the same set of responses whatever it is asked."""

    def __init__(self, responses: list[list[str]]) -> None:
        self.responses = responses

    def predict(self, X: list[str]) -> list[list[str]]:
        return self.responses


def test_scikit_learn_searches_with_a_scorer() -> None:
    base = pytest.importorskip("sklearn.base", reason="scikit-learn is not installed")
    selection = importlib.import_module("sklearn.model_selection")
    estimator = type("Estimator", (Parrot, base.BaseEstimator), {})
    prompts = [f"say {a} {b}" for a in ("red", "green", "blue") for b in ("hat", "car")]
    answers = [prompt.removeprefix("say ") for prompt in prompts]
    search = selection.GridSearchCV(estimator(), {"words": [1, 2, 3]}, scoring=nlgauge.as_scorer("rouge-l"), cv=2)
    search.fit(prompts, answers)
    assert search.best_params_ == {"words": 2}
    assert search.best_score_ == pytest.approx(100)


def test_an_unknown_or_missing_tracker_is_said_before_the_run(tmp_path: Path) -> None:
    with raises(UnknownName, name="mlflo", nearest="mlflow"):
        check_tracker("mlflo")
    missing = [name for name in TRACKERS if importlib.util.find_spec(name) is None]
    if not missing:
        pytest.skip("every tracker is installed")
    with pytest.raises(MissingExtra, match=f"pip install {missing[0]}"):
        check_tracker(missing[0])
    done = helpers.nlgauge("score", "no-such-file", "--log", missing[0], cwd=tmp_path, cache=tmp_path / "cache")
    assert done.code == 2
    assert f"pip install {missing[0]}" in done.err


@pytest.mark.filterwarnings("default")  # what mlflow itself deprecates is not ours to mend
def test_mlflow_gets_the_scores_and_the_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    sets = [TEXTS, ["a a", "a b"], ["c c c", "d"]]
    score = replace(nlgauge.score(sets, ["distinct:n=1"], confidence=True)[0], system="a|b")
    log_scores([score], results_document([score]), "mlflow")
    run = mlflow.search_runs(output_format="list")[0]
    assert run.data.metrics["a-b/distinct-n-1"] == score.value
    assert score.ci is not None
    assert run.data.metrics["a-b/distinct-n-1.low"] == pytest.approx(score.ci[0])
    document = mlflow.artifacts.load_dict(f"{run.info.artifact_uri}/nlgauge.json")
    assert document["scores"][0]["signature"] == str(score.signature)
    mlflow.set_tracking_uri("no-such-store://here")
    with raises(OutputError, option="log"):
        log_scores([score], results_document([score]), "mlflow")


def test_names_that_a_tracker_would_confuse_are_refused() -> None:
    score = nlgauge.score([TEXTS] * 3, ["distinct"])[0]
    from nlgauge.interop import _tracked

    assert _tracked([replace(score, value=math.inf)]) == {"distinct": math.inf}
    with pytest.raises(DataError, match="two scores would be logged as 'a-b/distinct'"):
        _tracked([replace(score, system="a:b"), replace(score, system="a|b")])
