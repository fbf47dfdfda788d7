"""Numbers as the papers print them (`printed.toml`), and files of the data that they are about."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

EAD_TABLE = Path(__file__).parent / "ead_table2.csv"
CONTENT = {
    "table4": {
        "story": "conTest/con_test_200_with_hds_story_gen.csv",
        "resp": "conTest/con_test_200_with_hds_resp_gen.csv",
    },
    "table8": {"story": "McDiv/mcdiv_all_no_hds_story_gen.csv"},
    "table9": {"story": "McDiv_nuggets/mcdiv_nuggets_no_hds_story_gen.csv"},
    "table10": {"story": "McDiv_nuggets/mcdiv_nuggets_200_with_hds_story_gen.csv"},
}
DECODING = {task: f"decTest/dec_test_1000_no_hds_{task}_gen.csv" for task in ("story", "resp")}
DECODING_HUMAN = {task: f"decTest/dec_test_200_with_hds_{task}_gen.csv" for task in ("story", "resp")}


def printed() -> dict[str, Any]:
    """Everything that the papers print."""
    return tomllib.loads((Path(__file__).parent / "printed.toml").read_text(encoding="utf-8"))
