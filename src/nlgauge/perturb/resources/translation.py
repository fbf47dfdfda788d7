"""Paraphrases by back translation (paper 4, appendix B.1), each distinct sentence once.

A translator is named by a spec: `apertium` (English to Esperanto and back, by rules), `models:forward=NAME,back=NAME`
(two encoder-decoder models by hub name or folder), or `phrases` (no translation: a table of English phrases).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from nlgauge.configured import Configured
from nlgauge.errors import ModelError, OptionError
from nlgauge.perturb.resources.grammar import as_written
from nlgauge.perturb.resources.remembered import digest, remembered
from nlgauge.registry import Registry

_MASK = re.compile(r"\[[A-Z]+\]")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ENDS = re.compile(r"[\s.!?\"'”’)\]]*$")
_APART = re.compile(r"(?<=\w)(n['’]t|['’](?:s|m|d|re|ve|ll))\b|(?<=\S)([.,;:!?])(?=\s|$)", re.IGNORECASE)
_RESERVED = re.compile(r"[\\\[\]{}^$/<>@]")
_ESCAPED = re.compile(r"\\(.)")
_THERE, _BACK = "en-eo", "eo-en"
_BEAMS = 4
_LONGEST = 256


@dataclass(frozen=True, kw_only=True)
class Translator(Configured, ABC):
    """Paraphrases sentences. Subclasses are frozen dataclasses; their fields are the options of its spec."""

    @abstractmethod
    def facts(self) -> Mapping[str, Any]:
        """Everything that results depend on, for the signature; a missing resource raises an error."""

    @abstractmethod
    def paraphrase(self, sentences: Sequence[str]) -> list[str]:
        """Each sentence in other words; an empty text if there are none."""

    def relevant_options(self) -> Mapping[str, Any]:
        """Everything that results depend on."""
        return self.facts()


@dataclass(frozen=True, kw_only=True)
class RoundTrip(Translator):
    """A back translation, cached on disk.

    Masked names are translated as words that are in no dictionary, and must all come back; otherwise the sentence has
    no paraphrase. The end of a sentence and the style of tokenised text are those of the original.
    """

    @abstractmethod
    def translated(self, sentences: Sequence[str]) -> list[str]:
        """Back translations of plain English sentences without final punctuation."""

    def paraphrase(self, sentences: Sequence[str]) -> list[str]:
        """Each sentence after back translation."""
        ordered = sorted(set(sentences))
        found = remembered(f"round-trips-1-{digest(str(self.signature)).hex()}", ordered, self._round_trips)
        known = dict(zip(ordered, found, strict=True))
        return [known[sentence].decode() for sentence in sentences]

    def _round_trips(self, sentences: list[str]) -> Iterator[bytes]:
        shielded = [_shielded(sentence) for sentence in sentences]
        back = self.translated([text for text, _ in shielded])
        for sentence, text, (_, masks) in zip(sentences, back, shielded, strict=True):
            yield _restored(text, masks, sentence).encode()


@dataclass(frozen=True, kw_only=True)
class Apertium(RoundTrip):
    """Apertium's rules, from English to Esperanto and back (Debian's apertium-eo-en).

    Its English is poor: articles get lost, since Esperanto has no indefinite one. Its tagger adapts to its input, so
    that about one translation in forty depends on the earlier ones, which are therefore sorted.
    """

    name: ClassVar[str] = "apertium"

    def translated(self, sentences: Sequence[str]) -> list[str]:
        """All sentences by two processes, one line each."""
        return _apertium(_BACK, _apertium(_THERE, sentences))

    def facts(self) -> Mapping[str, Any]:
        """The program's version and the pair of languages."""
        return {"pair": _THERE, "program": _apertium_version()}


@dataclass(frozen=True, kw_only=True)
class Models(RoundTrip):
    """Two encoder-decoder models, such as Marian's from English to German and back, with beam search."""

    name: ClassVar[str] = "models"

    forward: str = ""
    back: str = ""

    def __post_init__(self) -> None:
        if not self.forward or not self.back:
            raise OptionError(
                f"models: forward='{self.forward}' and back='{self.back}'; expected two models, as in "
                "models:forward=Helsinki-NLP/opus-mt-en-de,back=Helsinki-NLP/opus-mt-de-en"
            )

    def translated(self, sentences: Sequence[str]) -> list[str]:
        """All sentences through one model, then the other."""
        from nlgauge.models.language.base import Sampling
        from nlgauge.models.shared import load_shared

        texts = [f"{sentence}." for sentence in sentences]
        for spec in (self.forward, self.back):
            sampling = Sampling(beams=_BEAMS, max_new_tokens=_LONGEST)
            texts = load_shared(spec.partition("@")[0]).generate(texts, sampling, [0] * len(texts))
        return texts

    def facts(self) -> Mapping[str, Any]:
        """Both models with their hashes."""
        from nlgauge.models.fetch import model_identity

        return {"forward": model_identity(self.forward), "back": model_identity(self.back), "beams": _BEAMS}


TRANSLATORS: Registry[Translator] = Registry(
    "translator",
    "nlgauge.translators",
    {
        "apertium": f"{__name__}:Apertium",
        "models": f"{__name__}:Models",
        "phrases": "nlgauge.perturb.resources.phrases:Phrases",
    },
    "models:forward=FOLDER,back=FOLDER",
)


def create_translator(spec: str) -> Translator:
    """A translator from `name` or `name:option=value,option=value`; within another spec, `;` replaces the comma."""
    return TRANSLATORS.create(spec.replace(";", ","))


def _shielded(sentence: str) -> tuple[str, dict[str, str]]:
    """A sentence as written, without the marks at its end, with a placeholder name for each masked one."""
    masks = dict.fromkeys(_MASK.findall(sentence))
    names = {mask: f"Zq{_LETTERS[number % 26] * (1 + number // 26)}rv" for number, mask in enumerate(masks)}
    text = _MASK.sub(lambda mask: names[mask[0]], sentence)
    return _ENDS.sub("", as_written(text)), {name: mask for mask, name in names.items()}


def _restored(text: str, masks: Mapping[str, str], original: str) -> str:
    """A back translation with masked names, the end and the style of the original; empty if a name is lost."""
    line = _ENDS.sub("", " ".join(text.split()))
    if not line:
        return ""
    for name, mask in masks.items():
        if len(re.findall(rf"\b{name}\b", line)) != original.count(mask):
            return ""
    line = line[0].upper() + line[1:]
    if original.rstrip()[-2:-1].isspace():
        line = _APART.sub(r" \1\2", line)
    if not any(map(str.isupper, _MASK.sub("", original))):
        line = line.lower()
        masks = {name.lower(): mask for name, mask in masks.items()}
    for name, mask in masks.items():
        line = re.sub(rf"\b{name}\b", mask, line)
    end = _ENDS.search(original)
    return line + (end[0] if end else "")


def _apertium(direction: str, lines: Sequence[str]) -> list[str]:
    """Lines translated by one process; the numbers of lines must match. A null character separates them."""
    program = shutil.which("apertium")
    if program is None:
        raise ModelError(_no_apertium("the program apertium was not found"))
    done = subprocess.run(
        [program, "-z", "-u", "-f", "none", direction],
        input="".join(_RESERVED.sub(r"\\\g<0>", line) + ".[]\0" for line in lines).encode(),
        capture_output=True,
        check=False,
    )
    if done.returncode:
        told = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        raise ModelError(_no_apertium(f"apertium {direction} failed: {told[0] if told else 'without a word'}"))
    found = done.stdout.decode(errors="replace").split("\0")
    if len(found) < len(lines) or any(map(str.strip, found[len(lines) :])):
        raise ModelError(f"apertium {direction} gave {len(found)} lines for {len(lines)}; expected one each")
    return [_ENDS.sub("", _ESCAPED.sub(r"\1", line.removesuffix("[]"))) for line in found[: len(lines)]]


@lru_cache(maxsize=1)
def _apertium_version() -> str:
    _apertium(_THERE, ["a dog"])
    _apertium(_BACK, ["hundo"])
    done = subprocess.run(["apertium", "-V"], capture_output=True, text=True, check=False)
    version = re.search(r"\d+(?:\.\d+)+", done.stdout + done.stderr)
    return version[0] if version else "unknown"


def _no_apertium(found: str) -> str:
    return (
        f"{found}; expected apertium with English and Esperanto; on Debian and Ubuntu: apt install apertium-eo-en; "
        "or name another translator, such as translator=phrases"
    )
