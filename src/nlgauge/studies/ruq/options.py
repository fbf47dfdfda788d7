"""The options that RUQ and the sweep over models share: prompts, generic responses and how a text is scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import polars as pl

from nlgauge.configured import Options, check_that, option
from nlgauge.data.reading import Source
from nlgauge.data.tables import Items
from nlgauge.errors import DataError, OptionError, argument
from nlgauge.models.language.base import Sampling, TokenLogprobs
from nlgauge.models.language.prompting import Prompting

Normalise = Literal["tokens+end", "tokens", "characters", "none"]
Ties = Literal["lose", "win", "half"]
Pairs = str | Path | Items | Source | pl.DataFrame
GENERICS = ("I don't know.", "I don't know what to do.")
ALL = "all"
REFERENCE = "reference"
FEWEST_PROMPTS = 2
KINDS = (REFERENCE, ALL, "beam", "greedy")
MODEL = "A catalogue name, a folder, ngram:FOLDER, or the address of an endpoint."


@dataclass(frozen=True, kw_only=True)
class RuqOptions(Options):
    r"""Prompts with references, generic responses, and what a score is.

    A score is the mean log-probability of the tokens and the end (`tokens+end`: the score of FAIRSEQ, the paper's
    toolkit), of the tokens alone (`tokens`), the sum of the tokens' by number of characters (`characters`), or that sum
    (`none`); the last three leave the end out. The end is the model's end token, or the text `end`, such as "\n" or a
    chat model's marker; endpoints have no end token. A reference that scores no higher than the generic has lost
    (`ties="lose"`: section 7.2 counts "higher probability"). One that equals the generic but for case and spaces is a
    tie, whatever the scores.

    `join` is between prompt and text and belongs to the text: a space by default, nothing where the template ends in
    white space. A chat model's template is written out, with its markers, and its turns end with one:

        template="<|im_start|>user\n{context}<|im_end|>\n<|im_start|>assistant\n", end="<|im_end|>"
    """

    train: Pairs | None = option(
        None, "Prompts and references of its training: columns context and text.", metavar="FILE", signed=False
    )
    test: Pairs | None = option(None, "Prompts and references that it has not seen.", metavar="FILE", signed=False)
    generics: Sequence[str] | None = option(
        None,
        f"A generic response; repeat for more. Default: {' and '.join(GENERICS)}",
        metavar="TEXT",
        flags=("--generic",),
    )
    generics_file: str | Path | None = option(
        None, "Generic responses, one per line.", metavar="FILE", flags=("--generics",), signed=False
    )
    find_generics: int = option(
        0, "Add the model's K most common outputs over the prompts of the first file.", metavar="K"
    )
    normalise: Normalise = option(
        "tokens+end", "Score: mean over tokens and end, mean over tokens, sum by characters, or sum."
    )
    end: str | None = option(
        None, r"What ends a response, such as \n; default: the model's end token.", metavar="TEXT", escapes=True
    )
    ties: Ties = option("lose", "What an equal score counts for the reference.")
    beam: int = option(0, "Score the model's own output: width of the beam, 1: greedy, 0: none.", metavar="N")
    max_new_tokens: int = option(40, "Longest output of the model, in tokens.", metavar="N")
    template: str = option(
        "{context}",
        r"What comes before a response; {context} is replaced, and \n is a line break.",
        metavar="TEXT",
        escapes=True,
    )
    join: str | None = option(
        None,
        "Between prompt and response; default: a space, unless the template ends in white space.",
        metavar="TEXT",
        escapes=True,
    )
    limit: int = option(0, "Use only the first N prompts of a file; 0: all.", metavar="N")

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.generics if self.generics is not None else GENERICS if self.generics_file is None else ()
        object.__setattr__(self, "generics", tuple(dict.fromkeys((*given, *_lines(self.generics_file)))))
        for name, least in (("find_generics", 0), ("beam", 0), ("max_new_tokens", 1)):
            value = getattr(self, name)
            check_that(_is_whole(value) and value >= least, name, value, f"a whole number, at least {least}")
        check_that(
            _is_whole(self.limit) and (self.limit == 0 or self.limit >= FEWEST_PROMPTS),
            "limit",
            self.limit,
            f"0 (all prompts), or at least {FEWEST_PROMPTS}",
        )
        if self.end is not None and (not self.end or self.normalise != "tokens+end"):
            raise OptionError(
                f"{argument('end', repr(self.end))} and {argument('normalise', self.normalise)}; expected some text, "
                f"with {argument('normalise', 'tokens+end')}"
            )
        if not self.texts and not self.find_generics:
            raise OptionError(
                f"no generic response; expected at least one, or {argument('find_generics')} to find the most common",
                option="generics",
            )
        for text in self.texts:
            known = isinstance(text, str) and text.strip() and text not in KINDS
            check_that(bool(known), "generics", repr(text), f"text such as {GENERICS[0]!r}")
        Prompting(self.template, self.join)

    @property
    def texts(self) -> tuple[str, ...]:
        """The generic responses that are named."""
        return tuple(self.generics or ())

    @property
    def prompting(self) -> Prompting:
        """How a context becomes a prompt, and what comes before a text."""
        return Prompting(self.template, self.join)

    @property
    def with_end(self) -> bool:
        """Whether the model's own end token is scored."""
        return self.normalise == "tokens+end" and self.end is None

    @property
    def sampling(self) -> Sampling:
        """How the model's own output is found."""
        stop = ("\n",) if self.end in (None, "\n") else ("\n", self.end)
        return Sampling(temperature=0, beams=max(1, self.beam), max_new_tokens=self.max_new_tokens, stop=stop)

    @property
    def decoding(self) -> str:
        """What the model's own output is called."""
        return "beam" if self.beam > 1 else "greedy"

    @property
    def outputs_made(self) -> str:
        """How the model's own output is found, for the signature."""
        width = f"-{self.beam}" if self.beam > 1 else ""
        return f"{self.decoding}{width}-of-{self.max_new_tokens}-tokens"

    def scoring_facts(self) -> dict[str, str]:
        """What the defaults of `join` and `end` stand for, for the signature."""
        between = self.prompting.between
        return {
            "join": {" ": "space", "": "none"}.get(between, between),
            "end": "model" if self.with_end else self.end or "none",
        }

    def spaced(self, text: str) -> str:
        """A text as it follows a prompt."""
        return f"{self.prompting.text(text)}{self.end or ''}"

    def score(self, result: TokenLogprobs, text: str) -> float:
        """The normalised score of a text; not a number where there is nothing to divide by."""
        length = {"characters": len(text), "none": 1}.get(self.normalise, len(result))
        return result.total / length if len(result) else float("nan")

    def splits(self, entries: Sequence[Any]) -> dict[str, Any]:
        """The data by the names of their splits: train, test (also `run(data)`), and those that `run({...})` names."""
        found = {name: data for name, data in (("train", self.train), ("test", self.test)) if data is not None}
        for entry in entries:
            found |= entry if isinstance(entry, Mapping) else {"test": entry}
        if not found:
            raise OptionError(f"no data; expected {argument('train')}, {argument('test')} or both", option="test")
        return found


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _lines(file: str | Path | None) -> list[str]:
    """The texts of a file, blank lines left out."""
    if file is None:
        return []
    texts = [text.strip() for text in Source(path=str(file), extras=()).read().texts.to_list() if text.strip()]
    if not texts:
        raise DataError("no generic response; expected one per line", file=str(file), option="generics_file")
    return texts
