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
from pathlib import Path
from typing import Any

from nlgauge.engine.files import write_text
from nlgauge.engine.progress import progress_bar
from nlgauge.engine.scratch import scratch_folder
from nlgauge.engine.workers import ordered_map
from nlgauge.errors import DataError, ModelError, OptionError
from nlgauge.perturb.base import SEED, Perturbation, Perturbed, draw_for, usable
from nlgauge.perturb.corpus import Corpus
from nlgauge.perturb.pairs import Original
from nlgauge.perturb.resources.grammar import Grammar, create_grammar
from nlgauge.perturb.story import Story, parse_all
from nlgauge.signature import Signature

FORMAT = "nlgauge-suite-1"
_AT_ONCE = 100
Row = dict[str, Any]


@dataclass(frozen=True)
class BuiltSuite:
    """The rows of a suite's files, its manifest, and the perturbations that could not run."""

    stories: list[Row]
    discrimination: list[Row]
    invariance: list[Row]
    manifest: Row
    skipped: dict[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write the files, the manifest last; the same suite gives the same bytes."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("stories", "discrimination", "invariance"):
            rows: list[Row] = getattr(self, name)
            write_text(
                folder / f"{name}.jsonl",
                "".join(json.dumps(row, ensure_ascii=False, indent=None) + "\n" for row in rows),
            )
        write_text(folder / "manifest.json", json.dumps(self.manifest, ensure_ascii=False, indent=2) + "\n")


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
    parse = any(one.parses for one in able)
    corpus = Corpus.merged(_each(_Reader(words, parse), chunks, workers, "reading", progress))
    maker = _Maker(tuple(able), corpus, judge, seed)
    made = list(_each(maker, chunks, workers, "perturbing", progress))
    counts: dict[str, Counter[str]] = {}
    for part in made:
        for key, counter in part.counts.items():
            counts.setdefault(key, Counter()).update(counter)
    discrimination = _by_aspect([row for part in made for row in part.discrimination], able)
    invariance = _by_aspect([row for part in made for row in part.invariance], able)
    rows = [{"id": one.id, "context": one.context or "", "text": one.text} for one in texts]
    digest = hashlib.sha256(json.dumps(rows, ensure_ascii=False).encode("utf-8", "surrogatepass")).hexdigest()
    signature = Signature(
        "suite",
        {
            "data": digest[:12],
            "aspects": "+".join(one.name for one in able),
            "grammar": _described(judge),
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
    return BuiltSuite(rows, discrimination, invariance, manifest, skipped)


def _described(grammar: Grammar) -> str:
    return "/".join([grammar.name, *(f"{key}={value}" for key, value in grammar.facts().items())])


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


@dataclass(frozen=True)
class _Reader:
    """Parses stories, which are cached on disk, and returns their corpus."""

    words: bool
    parse: bool

    def __call__(self, texts: list[Original]) -> Corpus:
        stories = [Story(one.text) for one in texts]
        if self.parse or self.words:
            parse_all(stories)
        return Corpus.of(stories, words=self.words)


@dataclass
class _Made:
    discrimination: list[Row] = field(default_factory=list)
    invariance: list[Row] = field(default_factory=list)
    counts: dict[str, Counter[str]] = field(default_factory=dict)

    def count(self, test: str, aspect: str, what: str) -> None:
        self.counts.setdefault(f"{test} {aspect}", Counter())[what] += 1


@dataclass(frozen=True)
class _Maker:
    """Makes the rows of some stories."""

    perturbations: tuple[Perturbation, ...]
    corpus: Corpus
    grammar: Grammar
    seed: int

    def __call__(self, texts: list[Original]) -> _Made:
        made = _Made()
        stories = {one.id: Story(one.text) for one in texts}
        if any(one.parses for one in self.perturbations):
            parse_all(stories.values())
        incoherent: dict[str, list[Row]] = {one.id: [] for one in texts}
        for perturbation in (one for one in self.perturbations if one.kind == "coherence"):
            found = self._perturbed(perturbation, stories, made, "discrimination", "")
            for one in texts:
                key = f"{perturbation.name} {one.id}"
                common = {"story": one.id, "aspect": perturbation.name, "context": one.context or ""}
                if perturbation.coherent(stories[one.id]):
                    made.count("discrimination", perturbation.name, "coherent")
                    made.discrimination.append({"id": f"{key} 1", **common, "label": 1, "rule": None, "text": one.text})
                if one.id in found:
                    row = {"id": f"{key} 0", **common, "label": 0, **_answer(found[one.id])}
                    made.discrimination.append(row)
                    incoherent[one.id].append(row)
        worse = {
            one.id: draw_for(self.seed, "incoherent", one.text).choice(incoherent[one.id])
            for one in texts
            if incoherent[one.id]
        }
        sources = {"human": stories, "incoherent": {id: Story(row["text"]) for id, row in worse.items()}}
        for source, originals in sources.items():
            if any(one.parses for one in self.perturbations if one.kind == "robustness"):
                parse_all(originals.values())
            for perturbation in (one for one in self.perturbations if one.kind == "robustness"):
                found = self._perturbed(perturbation, originals, made, "invariance", f" {source}")
                for one in texts:
                    if one.id not in found:
                        continue
                    pair = f"{perturbation.name} {source} {one.id}"
                    common = {
                        "story": one.id,
                        "aspect": perturbation.name,
                        "source": source,
                        "pair": pair,
                        "context": one.context or "",
                    }
                    before = {"label": 1, "rule": None, "text": originals[one.id].text}
                    made.invariance += [
                        {"id": f"{pair} 1", **common, **before},
                        {"id": f"{pair} 0", **common, "label": 0, **_answer(found[one.id])},
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
                made.count(test, key, f"made:{outcome.rule}")
            else:
                made.count(test, key, f"not:{outcome.reason}")
        if not perturbation.filtered:
            return found
        lines = sorted({line for one in found.values() for line in one.changed_sentences()})
        verdict = dict(zip(lines, self.grammar.verdicts(lines), strict=True))
        kept: dict[str, Perturbed] = {}
        for id, one in found.items():
            verdicts = {verdict[line] for line in one.changed_sentences()}
            if "ungrammatical" in verdicts:
                made.count(test, key, f"dropped:{one.rule}")
                continue
            kept[id] = one
            if "unjudged" in verdicts:
                made.count(test, key, "unjudged")
        return kept


def _answer(outcome: Perturbed) -> Row:
    return {"rule": outcome.rule, "text": outcome.text, "changes": [asdict(one) for one in outcome.changes]}


def _by_aspect(rows: list[Row], perturbations: Sequence[Perturbation]) -> list[Row]:
    """Rows aspect after aspect, each in the order of stories."""
    place = {one.name: number for number, one in enumerate(perturbations)}
    return sorted(rows, key=lambda row: place[row["aspect"]])


def _tables(counts: dict[str, Counter[str]], test: str, perturbations: Sequence[Perturbation]) -> Row:
    """Counts of every aspect (and source): made by each technique, dropped by the filter, not applicable and why."""
    table: Row = {}
    kind = "coherence" if test == "discrimination" else "robustness"
    for perturbation in (one for one in perturbations if one.kind == kind):
        for source in ("",) if test == "discrimination" else (" human", " incoherent"):
            counter = counts.get(f"{test} {perturbation.name}{source}", Counter())
            parts: dict[str, dict[str, int]] = {"made": {}, "dropped": {}, "not": {}}
            for what, number in sorted(counter.items()):
                head, colon, tail = what.partition(":")
                if colon:
                    parts[head][tail] = number
            made, dropped = sum(parts["made"].values()), sum(parts["dropped"].values())
            row: Row = {"coherent": counter["coherent"]} if test == "discrimination" else {}
            row |= {
                "kept": made - dropped,
                "made": made,
                "dropped_by_grammar": dropped,
                "kept_unjudged": counter["unjudged"],
                "rules": {
                    rule: {"made": number, "dropped": parts["dropped"].get(rule, 0)}
                    for rule, number in parts["made"].items()
                },
                "not_applicable": parts["not"],
            }
            table[f"{perturbation.name}{source}"] = row
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
