"""Filters of ungrammatical sentences: Link Grammar, classifiers, and sentences as an ordinary reader writes them."""

from __future__ import annotations

import ctypes.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlgauge.errors import ModelError, OptionError, UnknownName
from nlgauge.models.encoders.text_classifier import TextClassifier
from nlgauge.perturb.resources.grammar import as_written, create_grammar
from tests.conftest import make_cross_encoder
from tests.errors import raises

GOOD = [
    "The gardener watered her roses before breakfast.",
    "the gardener did n't water her roses .",
    "[FEMALE] and [MALE] were late , so they ran to the station .",
    "i ca n't find [MALE] 's umbrella .",
    "THE TRAIN LEFT WITHOUT THEM.",
    '"Close the window," she said.',
    "`` close the window , '' she said .",
    'He asked, "Where is my hat?"',
    "“I would rather stay at home,” said Agnes.",
]
BAD = [
    "The gardener her roses watered breakfast before.",
    "[MALE] were goes to the station .",
    "She not water did the roses.",
    "He bought a of apples.",
    "They wants to leaving early the.",
]
needs_link_grammar = pytest.mark.skipif(
    ctypes.util.find_library("link-grammar") is None, reason="Link Grammar is not installed"
)


@pytest.fixture
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NLGAUGE_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("sentence", "written"),
    [
        ("[MALE] did n't go .", "Robert didn't go."),
        ("i ca n't , [FEMALE] wo n't .", "I can't, Samantha won't."),
        ("`` it 's late , '' he said .", "It's late, he said."),
        ("“Stop!”", "Stop!"),
        ("'Stop it,' he said.", "Stop it, he said."),
        ("He took the boys ' hats.", "He took the boys' hats."),
        ("it cost $ 20 ...", "It cost $20."),
        ("well ... maybe .", "Well, maybe."),
        ("COME HOME NOW!", "Come home now!"),
        ("", ""),
    ],
)
def test_sentences_are_judged_as_people_write_them(sentence: str, written: str) -> None:
    assert as_written(sentence) == written


@needs_link_grammar
def test_link_grammar_accepts_good_sentences_however_tokenised_and_no_broken_ones(own_store: None) -> None:
    grammar = create_grammar("link-grammar")
    assert grammar.accepts(GOOD) == [True] * len(GOOD)
    assert grammar.accepts(BAD) == [False] * len(BAD)


@needs_link_grammar
def test_verdicts_depend_neither_on_order_nor_on_memory(own_store: None) -> None:
    grammar = create_grammar("link-grammar")
    first = grammar.verdicts([*GOOD, *BAD, *GOOD])
    again = create_grammar("link-grammar").verdicts([*GOOD, *BAD, *GOOD][::-1])[::-1]
    assert first == again
    assert grammar.verdicts([]) == []


@needs_link_grammar
def test_a_sentence_with_too_many_words_is_not_judged_and_stays(own_store: None) -> None:
    sentence = "She likes tea" + " and cake" * 40 + "."
    assert create_grammar("link-grammar").verdicts([sentence]) == ["unjudged"]
    assert create_grammar("link-grammar").accepts([sentence]) == [True]
    assert create_grammar("link-grammar:words=3").verdicts(["He left.", "He left the house."]) == [
        "grammatical",
        "unjudged",
    ]
    with pytest.raises(OptionError, match="words=0; expected a number of words from 1 to 250"):
        create_grammar("link-grammar:words=0")


@needs_link_grammar
@settings(max_examples=150)
@given(st.text(max_size=60))
def test_no_text_crashes_link_grammar(text: str) -> None:
    assert create_grammar("link-grammar").accepts([text])[0] in (True, False)


@needs_link_grammar
def test_link_grammar_prints_nothing_and_does_not_depend_on_the_locale(tmp_path: Path) -> None:
    code = (
        "from nlgauge.perturb.resources.grammar import create_grammar\n"
        "print(create_grammar('link-grammar').verdicts(['Zoë’s café is open.', 'He xqz the of.', '~~ @@ a']))"
    )
    outcomes = set()
    for locale in ("C", "C.UTF-8"):
        environment = {**os.environ, "LC_ALL": locale, "NLGAUGE_CACHE": str(tmp_path / locale)}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
        assert done.stderr == ""
        outcomes.add(done.stdout)
    assert len(outcomes) == 1
    assert "'grammatical', 'ungrammatical'" in outcomes.pop()


@needs_link_grammar
def test_the_signature_names_filter_version_and_bound() -> None:
    assert "link-grammar|words:60|library:5." in str(create_grammar("link-grammar").signature)


def test_a_machine_without_the_library_is_told_what_to_install(tmp_path: Path) -> None:
    code = (
        "import ctypes\n"
        "from nlgauge.perturb.resources.grammar import create_grammar\n"
        "def missing(*_, **__): raise OSError('no such library')\n"
        "ctypes.CDLL = missing\n"
        "create_grammar('link-grammar').accepts(['He left.'])"
    )
    environment = {**os.environ, "NLGAUGE_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert "ModelError" in done.stderr
    assert "apt install link-grammar" in done.stderr


def test_no_filter_accepts_everything() -> None:
    grammar = create_grammar("none")
    assert grammar.accepts([*GOOD, *BAD]) == [True] * len([*GOOD, *BAD])
    assert str(grammar.signature).startswith("none|v:")
    with raises(UnknownName, name="link-grammer", nearest="link-grammar"):
        create_grammar("link-grammer")


def test_a_classifier_accepts_from_its_threshold_on(tmp_path: Path, own_store: None) -> None:
    folder = make_cross_encoder(tmp_path / "cola", ("unacceptable", "acceptable"))
    sentences = [as_written(sentence) for sentence in [*GOOD, *BAD]]
    shares = TextClassifier(str(folder)).probabilities(sentences)
    other = TextClassifier(str(folder), "UNACCEPTABLE").probabilities(sentences)
    assert np.abs(shares + other - 1).max() < 1e-6
    assert shares.std() > 0.01
    middle = float(np.median(shares))
    grammar = create_grammar(f"classifier:model={folder},threshold={middle}")
    assert grammar.accepts([*GOOD, *BAD]) == [share >= middle for share in shares.tolist()]
    assert f"|threshold:{middle}|label:acceptable|" in str(grammar.signature)
    assert "cola@" in str(grammar.signature)


def test_a_classifier_reads_single_texts_as_transformers_does(tmp_path: Path, own_store: None) -> None:
    import torch
    import transformers

    folder = make_cross_encoder(tmp_path / "cola", ("LABEL_0", "LABEL_1"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    for sentence, share in zip(GOOD, TextClassifier(str(folder)).probabilities(GOOD).tolist(), strict=True):
        with torch.no_grad():
            logits = model(**tokenizer(sentence, return_tensors="pt", truncation=True)).logits
        assert share == pytest.approx(torch.softmax(logits, -1)[0, 1].item(), abs=1e-5)


def test_classifiers_that_cannot_judge_say_what_was_found_and_expected(tmp_path: Path) -> None:
    three = make_cross_encoder(tmp_path / "three", ("contradiction", "neutral", "entailment"))
    with pytest.raises(ModelError, match=r"3 labels \(contradiction, neutral, entailment\); expected a classifier wi"):
        create_grammar(f"classifier:model={three}").accepts(["He left."])
    one = make_cross_encoder(tmp_path / "one")
    with pytest.raises(ModelError, match=r"1 labels \(LABEL_0\)"):
        create_grammar(f"classifier:model={one}").prepare()
    odd = make_cross_encoder(tmp_path / "odd", ("wrong", "right"))
    with pytest.raises(ModelError, match="labels wrong and right; expected LABEL_1 or acceptable"):
        create_grammar(f"classifier:model={odd}").prepare()
    assert "label:right" in str(create_grammar(f"classifier:model={odd},label=RIGHT").signature)
    with raises(UnknownName, name="rigt", nearest="right"):
        create_grammar(f"classifier:model={odd},label=rigt").prepare()
    with pytest.raises(OptionError, match="no model is named"):
        create_grammar("classifier")
    with pytest.raises(OptionError, match=r"threshold=2\.0; expected a probability"):
        create_grammar(f"classifier:model={odd},threshold=2")
