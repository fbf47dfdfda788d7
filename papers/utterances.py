"""Single utterances of a dialog corpus, one per line: `python -m papers.utterances FILE > utterances.txt`."""

from __future__ import annotations

import sys
from pathlib import Path

from nlgauge.data.dialogs import read_dialogs


def utterances(path: Path) -> list[str]:
    """The turns of all dialogs of a file, each on one line."""
    return [turn.text.replace("\n", " ") for dialog in read_dialogs(path).dialogs for turn in dialog]


def main() -> int:
    """Print the utterances of one file."""
    if len(sys.argv) != 2:
        print("usage: python -m papers.utterances FILE", file=sys.stderr)
        return 2
    for utterance in utterances(Path(sys.argv[1])):
        print(utterance)
    return 0


if __name__ == "__main__":
    sys.exit(main())
