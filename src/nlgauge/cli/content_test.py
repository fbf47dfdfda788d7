"""`nlgauge content-test`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nlgauge.cli.commands import argument, borrowed
from nlgauge.cli.output import ChartOutput, Plugins, say, show_result
from nlgauge.configured import check_that, option, required
from nlgauge.data.columns import Reading
from nlgauge.engine.running import Running
from nlgauge.models.runtime import Machine
from nlgauge.studies.testers.build import ContentTestPlan


def content_test(
    plan: ContentTestPlan,
    reading: Reading,
    machine: Machine,
    plugins: Plugins,
    output: ChartOutput,
    files: Sequence[str] = argument(
        "FILE...", "Contexts, with responses or without; files may share contexts. Plain text has one per line."
    ),
    folder: Path = required("Folder for the sets, the nuggets and what is kept of the run.", metavar="FOLDER"),
    limit: int = option(0, "Use only the first N contexts; 0: all.", metavar="N"),
    progress: bool = borrowed(Running, "progress"),
) -> None:
    """Build a content test on your own contexts: sets of high and low content diversity, and what metrics see of it.

    To every context a tester writes a set that says different things and a set that says one thing in different words
    (paper 1, section 3.2). FOLDER gets TESTER.jsonl, which `nlgauge study content` reads as it is, and
    TESTER-nuggets.jsonl, where form is balanced as far as it can be; the table has each metric on both. Finished parts
    of the run stay in FOLDER, too: the same command continues after an interruption and gives the same files. People
    are the best testers: `nlgauge annotate new NAME --form write-different`.

    Examples:
      nlgauge content-test examples/system_a.jsonl examples/system_b.jsonl --folder test --tester data
      nlgauge content-test contexts.txt --folder test --tester model:model=smollm2 --limit 20 -o content.json
    """
    from nlgauge.engine.files import check_writable
    from nlgauge.studies.testers.build import build_content_test
    from nlgauge.studies.testers.contexts import read_responded

    check_that(limit >= 0, "limit", limit, "0 or more")
    form = output.check(files)
    check_writable(folder / "data.jsonl" if folder.exists() else folder)
    plugins.use()
    machine.use()
    contexts = read_responded(files, reading)[: limit or None]
    result = build_content_test(contexts, plan, folder, progress=progress)
    say(f"wrote sets and nuggets to {folder}")
    show_result(result, form, output)
