"""A suite of test texts from a corpus of human stories (paper 4, section 3.2, AutoS).

For the discrimination test: of every aspect of coherence, stories chosen as coherent examples and stories made
incoherent. For the invariance test: of every aspect of robustness, originals (human stories, and incoherent ones) with
their perturbed versions. Results that the grammar filter rejects are dropped and counted.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from nlgauge.engine.files import write_text
from nlgauge.engine.progress import progress_bar
from nlgauge.engine.scratch import scratch_folder
from nlgauge.engine.workers import ordered_map
from nlgauge.errors import DataError, ModelError, OptionError
from nlgauge.perturb.base import SEED, Perturbation, Perturbed, draw_for, usable
from nlgauge.perturb.corpus import Corpus
from nlgauge.perturb.manifest import FILES, FORMAT, write_manifest
from nlgauge.perturb.pairs import Original
from nlgauge.perturb.resources.grammar import Grammar, create_grammar
from nlgauge.perturb.story import Story, parse_all
from nlgauge.signature import Signature

_AT_ONCE = 100
Row = dict[str, Any]


@dataclass(frozen=True)
class BuiltSuite:
    """The rows of a suite's files, its manifest, and the perturbations that could not run."""

    stories: list[Row]
    discrimination: list[Row]
    invariance: list[Row]
    manifest: Row

    @property
    def skipped(self) -> dict[str, str]:
        """The perturbations that could not run, and why."""
        return dict(self.manifest["skipped"])

    def write(self, folder: Path) -> None:
        """Write the files, the manifest with their checksums last; the same suite gives the same bytes."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            rows: list[Row] = getattr(self, name)
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            write_text(folder / f"{name}.jsonl", "".join(lines))
        write_manifest(self.manifest, folder)


def prepared(texts: Iterable[Original], *, first_sentence: bool = False, max_words: int = 0) -> list[Original]:
    """Stories for a suite: with the first sentence as context if wanted, cut after a complete sentence.

    A story that would exceed `max_words` ends with the last sentence that fits; its first sentence always stays.
    """
    found = []
    for one in texts:
        story = Story(one.text)
        spans = story.sentences[1:] if first_sentence else story.sentences
        if not spans:
            continue
        context = story.sentence(0) if first_sentence else one.context
        last, words = spans[0], 0
        for start, end in spans:
            words += len(one.text[start:end].split())
            if max_words and words > max_words:
                break
            last = (start, end)
        found.append(Original(one.id, one.text[spans[0][0] : last[1]], context))
    return found


def build_suite(
    texts: Sequence[Original],
    perturbations: Sequence[Perturbation],
    *,
    grammar: str = "link-grammar",
    seed: int = SEED,
    workers: int = 1,
    name: str = "",
    progress: bool = False,
) -> BuiltSuite:
    """Build a suite. The same texts, seed and options give the same suite, with any number of workers.

    A perturbation whose resources are missing is left out, and the suite says what is missing.
    """
    _check(texts, perturbations)
    able, skipped = usable(perturbations)
    if not able:
        raise ModelError(f"no perturbation can run on this machine: {'; '.join(skipped.values())}")
    judge = create_grammar(grammar)
    judge.prepare()
    chunks = [list(texts[start : start + _AT_ONCE]) for start in range(0, len(texts), _AT_ONCE)]
    words = any(one.uses_words for one in able)
    read = partial(_corpus_of, words=words, parse=words or any(one.parses for one in able))
    corpus = Corpus.merged(_each(read, chunks, workers, "reading", progress))
    made = list(_each(_Maker(tuple(able), corpus, judge, seed), chunks, workers, "perturbing", progress))
    counts = Counter[tuple[str, str, str]]()
    for part in made:
        counts.update(part.counts)
    discrimination = _by_aspect([row for part in made for row in part.discrimination], able)
    invariance = _by_aspect([row for part in made for row in part.invariance], able)
    rows = [{"id": one.id, "context": one.context or "", "text": one.text} for one in texts]
    digest = hashlib.sha256(json.dumps(rows, ensure_ascii=False).encode("utf-8", "surrogatepass")).hexdigest()
    signature = Signature(
        "suite",
        {
            "data": digest[:12],
            "aspects": "+".join(one.name for one in able),
            "grammar": "/".join([judge.name, *(f"{key}={value}" for key, value in judge.facts().items())]),
            "seed": str(seed),
        },
    )
    manifest = {
        "format": FORMAT,
        "signature": str(signature),
        "corpus": name,
        "data_sha256": digest,
        "stories": len(rows),
        "perturbations": {one.name: str(one.signature) for one in able},
        "skipped": skipped,
        "discrimination": _tables(counts, "discrimination", able),
        "invariance": _tables(counts, "invariance", able),
        "words": _lengths(discrimination, "label", {1: "coherent", 0: "incoherent"})
        | _lengths([row for row in invariance if row["label"]], "source", {"human": "human", "incoherent": "dis"}),
    }
    return BuiltSuite(rows, discrimination, invariance, manifest)


def _check(texts: Sequence[Original], perturbations: Sequence[Perturbation]) -> None:
    if not texts:
        raise DataError("no story to build a suite from; expected texts with at least one sentence")
    if twice := [id for id, count in Counter(one.id for one in texts).items() if count > 1]:
        raise DataError(f"two stories have the id '{twice[0]}'; expected an id for each")
    if twice := [id for id, count in Counter(one.name for one in perturbations).items() if count > 1]:
        raise OptionError(f"'{twice[0]}' is a duplicate; expected each perturbation once")


def _each(work: Callable[[Any], Any], chunks: list[Any], workers: int, label: str, show: bool) -> Iterator[Any]:
    """Results in order; one process works without threads, since parsers are not thread-safe."""
    with progress_bar(label, len(chunks), show=show) as advance, scratch_folder() as scratch:
        results = map(work, chunks) if workers == 1 else ordered_map(work, chunks, processes=workers, scratch=scratch)
        for done, result in enumerate(results, 1):
            yield result
            advance(done)


def _corpus_of(texts: list[Original], *, words: bool, parse: bool) -> Corpus:
    """The corpus of stories, whose parses are cached on disk."""
    stories = [Story(one.text) for one in texts]
    if parse:
        parse_all(stories)
    return Corpus.of(stories, words=words)


@dataclass
class _Made:
    """Rows, and counts by test, by aspect (and source), and by what happened."""

    discrimination: list[Row] = field(default_factory=list)
    invariance: list[Row] = field(default_factory=list)
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)


@dataclass(frozen=True)
class _Maker:
    """Makes the rows of some stories."""

    perturbations: tuple[Perturbation, ...]
    corpus: Corpus
    grammar: Grammar
    seed: int

    def __call__(self, texts: list[Original]) -> _Made:
        made = _Made()
        contexts = {one.id: one.context or "" for one in texts}
        stories = {one.id: Story(one.text) for one in texts}
        if any(one.parses for one in self.perturbations):
            parse_all(stories.values())
        incoherent: dict[str, list[str]] = {one.id: [] for one in texts}
        for perturbation in (one for one in self.perturbations if one.kind == "coherence"):
            name = perturbation.name
            found = self._perturbed(perturbation, stories, made, "discrimination", "")
            for id, story in stories.items():
                common = {"story": id, "aspect": name, "context": contexts[id]}
                if perturbation.coherent(story):
                    made.counts["discrimination", name, "coherent"] += 1
                    row = {"id": f"{name} {id} 1", **common, "label": 1, "rule": None, "text": story.text}
                    made.discrimination.append(row)
                if id in found:
                    made.discrimination.append({"id": f"{name} {id} 0", **common, "label": 0, **_answer(found[id])})
                    incoherent[id].append(found[id].text)
        worse = {
            one.id: Story(draw_for(self.seed, "incoherent", one.text).choice(lines))
            for one in texts
            if (lines := incoherent[one.id])
        }
        robustness = [one for one in self.perturbations if one.kind == "robustness"]
        if any(one.parses for one in robustness):
            parse_all(worse.values())
        for source, originals in (("human", stories), ("incoherent", worse)):
            for perturbation in robustness:
                name = perturbation.name
                for id, outcome in self._perturbed(perturbation, originals, made, "invariance", f" {source}").items():
                    pair = f"{name} {source} {id}"
                    common = {"story": id, "aspect": name, "source": source, "pair": pair, "context": contexts[id]}
                    made.invariance += [
                        {"id": f"{pair} 1", **common, "label": 1, "rule": None, "text": outcome.original},
                        {"id": f"{pair} 0", **common, "label": 0, **_answer(outcome)},
                    ]
        return made

    def _perturbed(
        self, perturbation: Perturbation, stories: dict[str, Story], made: _Made, test: str, source: str
    ) -> dict[str, Perturbed]:
        """The perturbed stories that pass the filter, with counts of the others."""
        perturbation.warm(list(stories.values()))
        found: dict[str, Perturbed] = {}
        key = perturbation.name + source
        for id, story in stories.items():
            outcome = perturbation(story, seed=self.seed, corpus=self.corpus)
            if isinstance(outcome, Perturbed):
                found[id] = outcome
                made.counts[test, key, f"made:{outcome.rule}"] += 1
            else:
                made.counts[test, key, f"not:{outcome.reason}"] += 1
        if not perturbation.filtered:
            return found
        for id, verdict in zip(list(found), self.grammar.judge_changes(found.values()), strict=True):
            if verdict == "ungrammatical":
                made.counts[test, key, f"dropped:{found.pop(id).rule}"] += 1
            elif verdict == "unjudged":
                made.counts[test, key, "unjudged"] += 1
        return found


def _answer(outcome: Perturbed) -> Row:
    return {"rule": outcome.rule, "text": outcome.text, "changes": [asdict(one) for one in outcome.changes]}


def _by_aspect(rows: list[Row], perturbations: Sequence[Perturbation]) -> list[Row]:
    """Rows aspect after aspect, each in the order of stories."""
    place = {one.name: number for number, one in enumerate(perturbations)}
    return sorted(rows, key=lambda row: place[row["aspect"]])


def _tables(counts: Counter[tuple[str, str, str]], test: str, perturbations: Sequence[Perturbation]) -> Row:
    """Counts of every aspect (and source): made by each technique, dropped by the filter, not applicable and why."""
    is_first = test == "discrimination"
    names = [one.name for one in perturbations if one.kind == ("coherence" if is_first else "robustness")]
    table: Row = {}
    for key in names if is_first else [f"{name} {source}" for name in names for source in ("human", "incoherent")]:
        parts: dict[str, dict[str, int]] = {"made": {}, "dropped": {}, "not": {}}
        for what, number in sorted((what, number) for (*of, what), number in counts.items() if of == [test, key]):
            head, colon, tail = what.partition(":")
            if colon:
                parts[head][tail] = number
        made, dropped = sum(parts["made"].values()), sum(parts["dropped"].values())
        table[key] = {
            **({"coherent": counts[test, key, "coherent"]} if is_first else {}),
            "kept": made - dropped,
            "made": made,
            "dropped_by_grammar": dropped,
            "kept_unjudged": counts[test, key, "unjudged"],
            "rules": {
                rule: {"made": number, "dropped": parts["dropped"].get(rule, 0)}
                for rule, number in parts["made"].items()
            },
            "not_applicable": parts["not"],
        }
    return table


def _lengths(rows: list[Row], key: str, names: dict[Any, str]) -> Row:
    """Mean numbers of words of contexts and texts (Tables 16 and 17)."""
    found: Row = {}
    for value, name in names.items():
        mine = [row for row in rows if row[key] == value]
        if mine:
            found[name] = {
                part: round(sum(len(row[part].split()) for row in mine) / len(mine), 2) for part in ("context", "text")
            }
    return found
