"""Tokenisers as options name them: those of `text`, and WordPiece with the vocabulary of a model of the catalogue."""

from __future__ import annotations

from pathlib import Path

from nlgauge.errors import ModelError
from nlgauge.text.tokens import canonical_tokenizer

_WORDPIECE = "wordpiece"
_BERT = "minilm"  # its vocabulary is that of bert-base-uncased
_FILES = ("tokenizer.json", "vocab.txt")


def named_tokenizer(tok: str) -> str:
    """Check the name of a tokeniser; one with a vocabulary gets its hash appended, verified if already there."""
    source = _source(tok)
    if source is None:
        return canonical_tokenizer(tok)
    return f"{_WORDPIECE}:{source}@{canonical_tokenizer(in_files(tok)).rpartition('@')[2]}"


def in_files(tok: str) -> str:
    """The same tokeniser with the file of a model's vocabulary in the place of the model's name."""
    source = _source(tok)
    if source is None or Path(source).is_file():
        return tok
    from nlgauge.models.fetch import resolve_model

    folder = resolve_model(source)
    found = next((folder / name for name in _FILES if (folder / name).is_file()), None)
    if found is None:
        raise ModelError(f"{folder}: has no {' or '.join(_FILES)}; expected the vocabulary of WordPiece")
    claimed = tok.partition("@")[2]
    return f"{_WORDPIECE}:{found}{'@' if claimed else ''}{claimed}"


def _source(tok: str) -> str | None:
    """The model or file behind WordPiece; None for other tokenisers."""
    kind, _, rest = tok.partition(":")
    return (rest.partition("@")[0] or _BERT) if kind == _WORDPIECE else None
