"""Tokenisers agree with plain Python."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nlgauge.errors import DataError, ModelError, UnknownName
from nlgauge.text.split_kernels import number_tokens
from nlgauge.text.tokens import Tokenizer, canonical_tokenizer
from tests.errors import raises

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
SPACES = list(" \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000\u200b\x00")
WORDS = ["a", "bb", "ünï", "longer-than-eight", "日本", "."]
spaced = st.lists(st.one_of(st.sampled_from(WORDS), st.sampled_from(SPACES)), max_size=20).map("".join)
many = st.lists(st.one_of(text, spaced), min_size=1, max_size=8)


def tokenise(name: str, texts: list[str], *, lower: bool = False) -> list[list[str]]:
    table = Tokenizer(name, lower=lower)(pl.Series(texts, dtype=pl.String))
    return [table.tokens(i) for i in range(len(table))]


@given(many)
def test_space_splits_as_python_does(texts: list[str]) -> None:
    assert tokenise("space", texts) == [t.split() for t in texts]


@given(many)
def test_space_nodot_deletes_dots_and_splits_on_spaces_only(texts: list[str]) -> None:
    assert tokenise("space-nodot", texts) == [[w for w in t.replace(".", "").split(" ") if w] for t in texts]


@given(many)
def test_char_gives_code_points(texts: list[str]) -> None:
    assert tokenise("char", texts) == [list(t) for t in texts]


@given(many)
def test_word_keeps_every_visible_character(texts: list[str]) -> None:
    for tokens, whole in zip(tokenise("word", texts), texts, strict=True):
        assert "".join(tokens) == "".join(whole.split()) or any(unicodedata.category(c)[0] in "ZC" for c in whole)


def test_word_separates_punctuation_and_keeps_contractions() -> None:
    found = tokenise("word", ["Don't stop, O’Neil! naïve café 3.14 日本語 ok_go"])[0]
    assert found == ["Don't", "stop", ",", "O’Neil", "!", "naïve", "café", "3", ".", "14", "日本語", "ok_go"]


@given(many | st.lists(st.text(alphabet="a1.,-&;ltgqampuo<>sked \n\x1c\x85(%~é", max_size=20)))
@example(["Hello, world! It's 3.14 &amp; more...", "U.S.-based, (yes) 1-2", "", "&amp;lt; <skipped>-\n1.,2-3"])
def test_13a_is_sacrebleus(texts: list[str]) -> None:
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    cut = Tokenizer13a()
    assert tokenise("13a", texts) == [cut(t).split() for t in texts]


@given(many)
def test_lower_casing_is_unicode_aware(texts: list[str]) -> None:
    assert tokenise("space", texts, lower=True) == [t.lower().split() for t in texts]


@given(st.lists(st.binary(max_size=12), max_size=60))
def test_equal_ids_mean_equal_bytes(tokens: list[bytes]) -> None:
    data = np.frombuffer(b"".join(tokens), np.uint8)
    edges = np.concatenate([[0], np.cumsum([len(t) for t in tokens])]).astype(np.int64)
    ids, first = number_tokens(data, edges[:-1], edges[1:])
    assert [tokens[first[i]] for i in ids] == tokens
    assert len(first) == len(set(tokens))


def test_numbering_survives_a_growing_vocabulary() -> None:
    words = [f"w{i % 30_000}" for i in range(90_000)]
    table = Tokenizer("space")(pl.Series([" ".join(words)]))
    assert table.vocabulary_size == 30_000
    assert table.tokens(0) == words


def test_hashes_of_tokens_do_not_depend_on_the_table() -> None:
    one = Tokenizer("space")(pl.Series(["a b c", "d e"]))
    other = Tokenizer("space")(pl.Series(["e d x c b a"]))
    hashes = {one.token(i): tuple(one.lanes[i]) for i in range(one.vocabulary_size)}
    again = {other.token(i): tuple(other.lanes[i]) for i in range(other.vocabulary_size)}
    assert all(hashes[word] == again[word] for word in hashes)


def test_a_hugging_face_file_is_a_tokeniser_and_its_hash_is_checked(tmp_path: Path) -> None:
    from tokenizers import Tokenizer as Made
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    made = Made(WordLevel({"hello": 0, "world": 1, "[UNK]": 2}, unk_token="[UNK]"))  # noqa: S106
    made.pre_tokenizer = Whitespace()
    place = tmp_path / "tokenizer.json"
    made.save(str(place))
    name = canonical_tokenizer(f"hf:{place}")
    assert tokenise(name, ["hello world hello", ""]) == [["hello", "world", "hello"], []]
    assert canonical_tokenizer(name) == name
    with pytest.raises(ModelError, match="different tokeniser"):
        canonical_tokenizer(f"hf:{place}@000000000000")
    place.write_text("{}")
    with pytest.raises(ModelError, match="not a tokenizer file"):
        tokenise(f"hf:{place}", ["hello"])


def test_unknown_and_missing_tokenisers_are_clear() -> None:
    with raises(UnknownName, name="spce", nearest="space"):
        canonical_tokenizer("spce")
    with raises(DataError, file="nowhere.json"):
        canonical_tokenizer("hf:nowhere.json")


WORDPIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "hello", "wor", "##ld", "##s", "the", ",", "[", "]", "sep"]


def test_wordpiece_cuts_words_into_the_pieces_of_its_vocabulary(tmp_path: Path) -> None:
    place = tmp_path / "vocab.txt"
    place.write_text("\n".join(WORDPIECES) + "\n")
    name = canonical_tokenizer(f"wordpiece:{place}")
    assert tokenise(name, ["Hello, WORLDS the zebra", "[SEP]", ""]) == [
        ["hello", ",", "wor", "##ld", "##s", "the", "[UNK]"], ["[", "sep", "]"], [],
    ]  # fmt: skip
    assert Tokenizer(name).vocabulary_size == len(WORDPIECES)
    assert canonical_tokenizer(name) == name
    place.write_text("\n".join([*WORDPIECES, "more"]) + "\n")
    with pytest.raises(ModelError, match="different tokeniser"):
        canonical_tokenizer(name)
    for bad in ("hello\nworld\n", "[UNK]\na\na\n"):
        place.write_text(bad)
        with pytest.raises(ModelError, match="no vocabulary of WordPiece"):
            canonical_tokenizer(f"wordpiece:{place}")


def test_a_tokenizer_file_and_a_vocabulary_of_the_same_wordpiece_are_one_tokeniser(tmp_path: Path) -> None:
    from tokenizers import Tokenizer as Made
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    made = Made(WordPiece({token: i for i, token in enumerate(WORDPIECES)}, unk_token="[UNK]"))  # noqa: S106
    made.normalizer, made.pre_tokenizer = BertNormalizer(lowercase=True), BertPreTokenizer()
    made.add_special_tokens(["[SEP]"])
    made.enable_truncation(3)
    made.enable_padding(length=5)
    made.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "vocab.txt").write_text("\n".join(WORDPIECES))
    names = [canonical_tokenizer(f"wordpiece:{tmp_path / file}") for file in ("tokenizer.json", "vocab.txt")]
    assert names[0].rpartition("@")[2] == names[1].rpartition("@")[2]
    texts = ["hello the hello the hello", "[SEP] worlds"]
    assert tokenise(names[0], texts) == tokenise(names[1], texts)
    assert len(tokenise(names[0], texts)[0]) == 5
    assert tokenise(f"hf:{tmp_path / 'tokenizer.json'}", texts[:1]) == [texts[0].split()]
