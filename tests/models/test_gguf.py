"""A GGUF file works in place of a folder."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nlgauge.errors import ModelError
from nlgauge.models.fetch import model_identity, resolve_model
from nlgauge.models.language.base import load_language_model

END = "<|endoftext|>"
HEADS = 4
PARTS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
WHOLES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def make_tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made: Any = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    options: dict[str, Any] = {"vocab_size": 300, "special_tokens": [END], "initial_alphabet": alphabet}
    made.train_from_iterator(["the dog ran home and the cat sat"] * 5, trainers.BpeTrainer(**options))
    return made


def make_model(vocabulary: int) -> Any:
    import transformers

    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": HEADS}
    settings: Any = transformers.LlamaConfig
    kind: Any = transformers.LlamaForCausalLM
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kind(settings(vocab_size=vocabulary, max_position_embeddings=64, initializer_range=0.5, **shape))


def write_gguf(path: Path, tokenizer: Any, model: Any) -> None:
    """As llama.cpp's converter writes a Llama: query and key rows interleaved for its way to rotate."""
    from gguf import GGUFWriter

    about = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(about["vocab"], key=about["vocab"].get)
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(2)
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(8)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * len(tokens))
    writer.add_token_merges([" ".join(pair) for pair in about["merges"]])
    writer.add_bos_token_id(tokens.index(END))
    writer.add_eos_token_id(tokens.index(END))
    for name, value in model.state_dict().items():
        matrix, stem = value.numpy(), name.removesuffix(".weight")
        if stem not in WHOLES:
            layer, _, part = stem.removeprefix("model.layers.").partition(".")
            target = f"blk.{layer}.{PARTS[part]}"
            if PARTS[part] in ("attn_q", "attn_k"):
                matrix = matrix.reshape(HEADS, 2, -1, matrix.shape[1]).swapaxes(1, 2).reshape(matrix.shape)
        else:
            target = WHOLES[stem]
        writer.add_tensor(f"{target}.weight", np.ascontiguousarray(matrix))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_gguf_file_scores_as_the_weights_it_was_made_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NLGAUGE_MODELS", str(tmp_path / "models"))
    tokenizer = make_tokenizer()
    model = make_model(tokenizer.get_vocab_size())
    file = tmp_path / "tiny.gguf"
    write_gguf(file, tokenizer, model)
    loaded = load_language_model(str(file))
    found = loaded.score(["the dog"], [[" ran home"]])[0][0]
    assert found.tokens == (" ran", " home")
    before, after = (tokenizer.encode(text).ids for text in (f"{END}the dog", " ran home"))
    with torch.no_grad():
        expected = model(torch.tensor([before + after])).logits[0].log_softmax(-1)
    assert found.logprobs == pytest.approx(
        [float(expected[len(before) + i - 1, token]) for i, token in enumerate(after)], abs=1e-4
    )
    assert resolve_model(str(file)) == resolve_model(str(file))
    assert model_identity(str(file)) == f"{file}@{hashlib.sha256(file.read_bytes()).hexdigest()[:12]}"
    assert loaded.fingerprint == model_identity(str(file)).partition("@")[2]
    assert [path.name for path in (tmp_path / "models").glob("[!.]*")] == [resolve_model(str(file)).name]
    (resolve_model(str(file)) / "tokenizer.json").open("a").close()
    assert model_identity(str(file))
    (resolve_model(str(file)) / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match=r"tokenizer\.json has changed"):
        load_language_model(str(file))


def test_a_file_that_is_no_gguf_is_refused_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NLGAUGE_MODELS", str(tmp_path / "models"))
    file = tmp_path / "broken.gguf"
    file.write_bytes(b"GGUF and then nothing")
    with pytest.raises(ModelError, match=r"broken\.gguf: cannot be"):
        load_language_model(str(file))
    assert not list((tmp_path / "models").glob("[!.]*"))
