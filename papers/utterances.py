"""Single utterances of dialog corpora, one a line: `python -m papers.utterances dailydialog FILE > utterances.txt`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

_NUMBER = re.compile(r"^\d+ ")


def dailydialog(path: Path) -> Iterator[str]:
    """Turns of DailyDialog: a dialogue a line, every turn ends in `__eou__`."""
    for line in path.read_text(encoding="utf-8").splitlines():
        yield from (turn.strip() for turn in line.split("__eou__") if turn.strip())


def opensubtitles(path: Path) -> Iterator[str]:
    """Utterances of ParlAI's OpenSubtitles: numbered lines, prompt and reply with a tab between, escaped quotes."""
    for line in path.read_text(encoding="utf-8").splitlines():
        for utterance in _NUMBER.sub("", line).split("\t"):
            if text := utterance.replace("\\'", "'").strip():
                yield text


READERS = {"dailydialog": dailydialog, "opensubtitles": opensubtitles}


def main() -> int:
    """Print the utterances of one file."""
    if len(sys.argv) != 3 or sys.argv[1] not in READERS:
        print(f"usage: python -m papers.utterances {'|'.join(READERS)} FILE", file=sys.stderr)
        return 2
    for utterance in READERS[sys.argv[1]](Path(sys.argv[2])):
        print(utterance)
    return 0


if __name__ == "__main__":
    sys.exit(main())
