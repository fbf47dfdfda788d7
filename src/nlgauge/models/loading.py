"""Loading a language model's folder through transformers, and what its settings say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nlgauge.errors import ModelError
from nlgauge.models.runtime import import_torch


def load_folder(folder: Path, auto_class: str, device: str, dtype: str) -> tuple[Any, Any]:
    """The tokeniser and the model of a folder; every weight must be there, in safetensors."""
    torch = import_torch("a local language model")
    import transformers

    if not any(folder.glob("*.safetensors")):
        raise ModelError(
            f"{folder}: no weights in .safetensors; expected them, since unpickling other formats runs code; convert "
            "them where you trust them"
        )
    safe: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **safe)
        model, facts = getattr(transformers, auto_class).from_pretrained(
            folder, use_safetensors=True, dtype=getattr(torch, dtype), output_loading_info=True, **safe
        )
        model = model.eval().to(device)
    except Exception as error:  # transformers and safetensors raise many unrelated kinds
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(
            f"{folder}: cannot be loaded: {reason}; expected the folder of a language model as transformers saves it, "
            f"and a device that exists (found '{device}')"
        ) from error
    if missing := sorted(facts["missing_keys"]):
        raise ModelError(
            f"{folder}: {len(missing)} weights are missing ({missing[0]}, …); expected all; fetch the model again"
        )
    return tokenizer, model


def context_window(config: Any, tokenizer: Any) -> int:
    """The largest number of tokens: what positions exist for, else what the tokeniser says, else 2,048."""
    for source, name in (
        (config.get_text_config(), "max_position_embeddings"),
        (config, "n_positions"),
        (tokenizer, "model_max_length"),
    ):
        found = getattr(source, name, None)
        if isinstance(found, int) and 1 < found < 1_000_000_000:
            return found
    return 2048


def end_ids(tokenizer: Any, model: Any, end: str | None) -> frozenset[int]:
    """Every token that ends a continuation."""
    found: set[int] = set()
    for ids in (
        model.generation_config.eos_token_id,
        getattr(model.config, "eos_token_id", None),
        tokenizer.eos_token_id,
    ):
        found |= set(ids) if isinstance(ids, list) else {ids} if ids is not None else set()
    if end is not None:
        found.add(int(tokenizer.convert_tokens_to_ids(end)))
    return frozenset(found)


def plain_generation(start: int | None) -> Any:
    """No penalties or filters but those that `Sampling` names, whatever the folder suggests."""
    import transformers

    kind: Any = transformers.GenerationConfig
    return kind(decoder_start_token_id=start)
