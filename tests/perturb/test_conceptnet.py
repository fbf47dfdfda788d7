"""Readers of ConceptNet's layouts."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from nlgauge.errors import DataError
from nlgauge.perturb.resources.conceptnet import ConceptNet, Neighbour, Triple, load_conceptnet, read_triples
from tests.errors import raises

DUMP = (
    '/a/[/r/Antonym/,/c/en/hot/a/,/c/en/cold/]\t/r/Antonym\t/c/en/hot/a/wn/all\t/c/en/cold\t{"weight": 1.0}\n'
    '/a/[x]\t/r/Antonym\t/c/fr/chaud\t/c/fr/froid\t{"weight": 1.0}\n'
    '/a/[y]\t/r/AtLocation\t/c/en/ice_cream/n\t/c/en/fridge\t{"weight": 2.0}\n'
    '/a/[z]\t/r/ExternalURL\t/c/en/hot\thttp://example.org/hot\t{"weight": 2.0}\n'
)


def test_the_dump_is_read_in_english_only_compressed_or_not(tmp_path: Path) -> None:
    (tmp_path / "dump.csv").write_text(DUMP)
    (tmp_path / "dump.csv.gz").write_bytes(gzip.compress(DUMP.encode()))
    expected = [Triple("Antonym", "hot", "cold"), Triple("AtLocation", "ice cream", "fridge")]
    assert list(read_triples(str(tmp_path / "dump.csv"))) == expected
    assert list(read_triples(str(tmp_path / "dump.csv.gz"))) == expected


def test_triples_and_antonyms_are_read(tmp_path: Path) -> None:
    (tmp_path / "triples.txt").write_text("AtLocation\tBook\tshelf\r\n\n/r/HasA\tcat\ttail")
    assert list(read_triples(str(tmp_path / "triples.txt"))) == [
        Triple("AtLocation", "book", "shelf"),
        Triple("HasA", "cat", "tail"),
    ]
    (tmp_path / "antonyms.txt").write_text("happy|||/r/Antonym|||sad gloomy\nhappy|||/r/NotDesires|||money\n")
    assert list(read_triples(str(tmp_path / "antonyms.txt"))) == [
        Triple("Antonym", "happy", "sad"),
        Triple("Antonym", "happy", "gloomy"),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        ("\n \n", "the file has no triples"),
        ("IsA\tcat\tanimal\nIsA\tdog\n", "line 2: 'IsA\tdog'; expected relation TAB head TAB tail"),
        (DUMP + "broken\n", "line 5: 'broken'; expected five fields"),
        ("/a/[x]\t/r/Antonym\t/c/fr/chaud\t/c/fr/froid\t{}\n", "no English triples in 1 lines"),
    ],
)
def test_a_bad_file_is_explained(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_text(content)
    with pytest.raises(DataError) as caught:
        list(read_triples(str(tmp_path / "file.txt")))
    assert message in str(caught.value)
    assert "file.txt" in str(caught.value)


def test_bytes_that_are_no_text_are_reported_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_bytes(b"IsA\tcat\tanimal\nIsA\tdog\t\xff\n")
    with raises(DataError, file="file.txt", line=2):
        list(read_triples(str(tmp_path / "file.txt")))


def test_neighbours_are_single_words_in_both_directions_whatever_the_order() -> None:
    triples = [Triple("HasA", "cat", "tail"), Triple("IsA", "cat", "small animal"), Triple("AtLocation", "cat", "sofa")]
    graph = ConceptNet.of(triples)
    assert graph == ConceptNet.of(reversed(triples))
    assert graph.neighbours["cat"] == (Neighbour("AtLocation", True, "sofa"), Neighbour("HasA", True, "tail"))
    assert graph.neighbours["tail"] == (Neighbour("HasA", False, "cat"),)
    assert "animal" not in graph.neighbours
    assert graph.has_triple_among(frozenset(("cat", "tail", "moon")))
    assert not graph.has_triple_among(frozenset(("sofa", "tail")))


def test_the_own_table_has_everyday_things() -> None:
    neighbours = load_conceptnet().neighbours
    assert sum(map(len, neighbours.values())) >= 400
    assert Neighbour("AtLocation", True, "shelf") in neighbours["book"]


def test_released_triples_and_antonyms_are_read_whole(research_data: Path) -> None:
    path = research_data / "conceptnet" / "triples_100k.txt"
    lines = path.read_text(encoding="utf-8").splitlines()
    assert sum(1 for _ in read_triples(str(path))) == len(lines)
    antonyms = list(read_triples(str(research_data / "conceptnet" / "antonyms.txt")))
    assert Triple("Antonym", "fit", "unhealthy") in antonyms
