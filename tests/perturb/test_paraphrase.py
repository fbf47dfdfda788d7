"""Paraphrases: phrases and round trips, what is kept of them, and the two perturbations made with them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import transformers
from nltk.translate.bleu_score import sentence_bleu

from nlgauge.errors import OptionError, UnknownName
from nlgauge.metrics.reference.moverscore import MoverScore
from nlgauge.perturb.base import Perturbed, Unchanged
from nlgauge.perturb.registry import create_perturbation
from nlgauge.perturb.resources.grammar import create_grammar
from nlgauge.perturb.resources.paraphrase import Paraphraser, bleu_1, words
from nlgauge.perturb.resources.phrases import Phrases
from nlgauge.perturb.resources.translation import Apertium, create_translator
from nlgauge.perturb.story import Story
from tests.errors import raises
from tests.models.test_language_models import tokenizer_in

PLAIN = (
    "Nora decided to buy a kitten. She couldn't find her phone in the house. Her parents were very happy for her. "
    "The cat slept on the couch. Nora loved to play with it."
)
MASKED = (
    "[FEMALE] decided to buy a kitten . she could n't find her phone in the house . [FEMALE] 's parents were very "
    "happy . the cat slept on the couch . [FEMALE] loved to play with it ."
)
needs_apertium = pytest.mark.skipif(shutil.which("apertium") is None, reason="apertium is not installed")


@pytest.mark.parametrize(
    ("sentence", "paraphrase"),
    [
        ("Nora decided to buy a kitten.", "Nora made the decision to purchase a young cat."),
        ("nora was n't able to sleep .", "nora was not able to sleep ."),
        ("[FEMALE] could n't find her phone .", "[FEMALE] was unable to locate her telephone ."),
        ("They couldn't see the mountain.", "They were unable to see the mountain."),
        ("He can't swim.", "He is unable to swim."),
        ("I liked to paint boats.", "I enjoyed painting boats."),
        ("The twins need a ladder.", "The twins are in need of a ladder."),
        ("She thought it was a fox.", "She was of the opinion that it was a fox."),
        ("Her parents were very happy.", "Her mother and father felt really pleased."),
        ("He bought a car.", "He purchased a vehicle."),
        ("She took a test.", "She took an exam."),
        ("Suddenly the noise stopped.", "All of a sudden the sound stopped."),
    ],
)
def test_phrases_are_replaced_in_the_right_form(sentence: str, paraphrase: str) -> None:
    assert Phrases().paraphrase([sentence]) == [paraphrase]


@pytest.mark.parametrize(
    "sentence",
    [
        "I couldn't wait.",
        "He saw a concert.",
        "She called it a day.",
        "They never met again.",
        "The car wash closed.",
        "Did he look up?",
        "",
    ],
)
def test_what_a_phrase_would_spoil_stays(sentence: str) -> None:
    again = Phrases().paraphrase([sentence])[0]
    assert again in ("", sentence.replace("couldn't", "could not"))


def test_phrases_leave_spaces_masks_and_odd_marks_alone() -> None:
    (again,) = Phrases().paraphrase(["[MALE]  decided to\tgo -- ~to the store~ , with [NEUTRAL] !?"])
    assert again.startswith("[MALE]  made the decision to")
    assert again.endswith("~ , with [NEUTRAL] !?")


def test_bleu_1_equals_nltk() -> None:
    pairs = [
        ("He employed a lawyer.", "He hired an attorney."),
        ("She left.", "She left the old house at noon."),
        ("The the the the.", "The dog did n't bark."),
    ]
    for text, reference in pairs:
        expected = sentence_bleu([words(reference)], words(text), weights=(1,))
        assert bleu_1(text, reference) == pytest.approx(expected)
    assert bleu_1("", "a") == 0


def test_plain_and_tokenised_text_have_the_same_words() -> None:
    assert words("He didn't see [MALE]'s dog, did he?") == words("he did n't see [MALE] 's dog , did he ?")


def test_a_paraphrase_is_near_in_meaning_and_far_in_words(minilm: str) -> None:
    lines = [Story(PLAIN).sentence(number) for number in range(5)]
    found = Paraphraser("phrases", 0.4, 0.6).find(lines)
    assert found
    for sentence, paraphrase in found.items():
        assert bleu_1(paraphrase, sentence) < 0.6
        assert MoverScore(model=minilm).of_pairs([(paraphrase, sentence)])[0] > 0.4
    assert set(found) < set(Paraphraser("phrases", -1, 1.01).find(lines))
    assert Paraphraser("phrases", 1, 0.6).find(lines) == {}
    assert Paraphraser("phrases", 0.4, 0.0).find(lines) == {}


def test_short_sentences_and_half_quotations_have_no_paraphrase(minilm: str) -> None:
    lines = ["He was tired.", '"She decided to buy a kitten.', "(She decided to buy a kitten."]
    assert Paraphraser("phrases", -1, 1.01).find(lines) == {}
    assert Paraphraser("phrases", -1, 1.01).find(["She decided to buy a kitten."])


@pytest.mark.parametrize("text", [PLAIN, MASKED])
def test_semantic_repetition_puts_a_paraphrase_right_after_its_sentence(minilm: str, text: str) -> None:
    perturbation = create_perturbation("semantic-repetition:mover=0.2")
    story = Story(text)
    seen = set()
    for version in range(12):
        outcome = perturbation(story, version=version)
        assert isinstance(outcome, Perturbed)
        (change,) = outcome.changes
        assert change.old == ""
        assert outcome.text == text[: change.start] + change.new + text[change.start :]
        number = [end for _, end in story.sentences].index(change.start)
        assert number < len(story.sentences) - 1
        assert outcome.changed_sentences() == [change.new.strip()]
        assert sorted(re.findall(r"\[\w+\]", change.new)) == sorted(re.findall(r"\[\w+\]", story.sentence(number)))
        seen.add(number)
    assert len(seen) > 1


@pytest.mark.parametrize("text", [PLAIN, MASKED])
def test_paraphrases_replace_one_sentence_and_nothing_else(minilm: str, text: str) -> None:
    perturbation = create_perturbation("paraphrases:mover=0.2")
    outcome = perturbation(text)
    assert isinstance(outcome, Perturbed)
    assert outcome == create_perturbation("paraphrases:mover=0.2")(text)
    (change,) = outcome.changes
    assert (change.start, change.end) in Story(text).sentences
    assert outcome.text.replace(change.new, change.old) == text
    assert outcome.rule == "phrases"


def test_warming_changes_nothing_but_the_time(minilm: str) -> None:
    stories = [Story(PLAIN), Story(MASKED)]
    cold = [create_perturbation("paraphrases:mover=0.15")(story) for story in stories]
    warm = create_perturbation("paraphrases:mover=0.150")
    warm.warm(stories)
    assert [warm(story) for story in stories] == cold


def test_paraphrases_by_phrases_are_grammatical(minilm: str) -> None:
    pytest.importorskip("spacy")
    found = Paraphraser("phrases", 0.2, 0.6).find(Story(text).sentence(n) for text in (PLAIN, MASKED) for n in range(5))
    assert all(create_grammar("link-grammar").accepts(list(found.values())))


def test_where_no_paraphrase_exists_the_reason_is_given(minilm: str) -> None:
    for name in ("paraphrases", "semantic-repetition"):
        for text in ("Rain fell.", "Zzz.", "HELP!", "¿Dónde está la biblioteca, por favor, señor?"):
            outcome = create_perturbation(name)(text)
            assert isinstance(outcome, Unchanged)
            assert "has a paraphrase" in outcome.reason


def test_the_signature_names_thresholds_translator_and_model(minilm: str) -> None:
    signature = str(create_perturbation("paraphrases").signature)
    assert "paraphrases|translator:phrases|mover:0.4|bleu:0.6|" in signature
    assert "table:" in signature.partition("#")[2]
    assert "minilm@" in signature.partition("#")[2]


@needs_apertium
def test_a_round_trip_keeps_masks_ends_and_the_style_of_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NLGAUGE_CACHE", str(tmp_path))
    lines = ["[MALE] bought a big house near [FEMALE] !", "The girl didn't buy the book.", "he did n't sleep ."]
    made = Apertium().paraphrase(lines)
    assert re.findall(r"\[\w+\]", made[0]) == ["[MALE]", "[FEMALE]"]
    assert made[0].endswith(" !")
    assert made[1] == "The girl did not buy the book."
    assert made[2] == "he did not sleep ."
    assert Apertium().paraphrase(lines[::-1]) == made[::-1]
    assert Apertium().paraphrase(["", "~", "a\nb"])[0] == ""
    assert "apertium|pair:en-eo|program:3." in str(Apertium().signature)


def test_a_round_trip_by_models_is_aligned_and_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NLGAUGE_CACHE", str(tmp_path / "cache"))
    folders = [make_t5(tmp_path / name, seed) for seed, name in enumerate(("there", "back"))]
    translator = create_translator(f"models:forward={folders[0]};back={folders[1]}")
    lines = ["The hen sat.", "A goat ate the hay.", "The hen saw [MALE].", "The hen sat."]
    made = translator.paraphrase(lines)
    assert made[0] == made[3]
    assert made[2] == ""
    assert all(line.endswith(".") for line in made if line)
    assert f"forward:{folders[0]}@" in str(translator.signature)
    assert translator.paraphrase(lines[::-1]) == made[::-1]


def make_t5(folder: Path, seed: int) -> Path:
    """An encoder-decoder of a few thousand random weights."""
    import torch

    tokenizer_in(folder)
    sizes: dict[str, Any] = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2, "n_positions": 400}
    special: dict[str, Any] = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1}
    library: Any = transformers
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        library.T5ForConditionalGeneration(library.T5Config(vocab_size=120, **sizes, **special)).save_pretrained(folder)
    return folder


def test_a_machine_without_apertium_is_told_what_to_install(tmp_path: Path) -> None:
    code = "from nlgauge.perturb.resources.translation import Apertium\nApertium().paraphrase(['He left the house.'])"
    environment = {**os.environ, "NLGAUGE_CACHE": str(tmp_path / "cache"), "PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert "ModelError: the program apertium was not found" in done.stderr
    assert "apt install apertium-eo-en" in done.stderr


def test_translators_that_make_no_sense_are_refused() -> None:
    with raises(UnknownName, name="apertum", nearest="apertium"):
        create_perturbation("paraphrases:translator=apertum")
    with pytest.raises(OptionError, match="expected two models, as in models:forward="):
        create_translator("models:forward=somewhere")
    with pytest.raises(OptionError, match=r"mover=7\.0; expected a score"):
        create_perturbation("paraphrases:mover=7")
