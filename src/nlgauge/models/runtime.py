"""Loading torch and its friends quietly and only when needed."""

from __future__ import annotations

import os
from typing import Any

from nlgauge.errors import MissingExtra


def import_torch(what: str) -> Any:
    """The torch module, with transformers' progress bars and thread warnings off; `what` names who needs it."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TQDM_DISABLE", "1")
    try:
        import torch
        import transformers.utils.logging as transformers_logging
    except ImportError as error:
        raise MissingExtra.needs(what, "models") from error
    logging: Any = transformers_logging
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    return torch
