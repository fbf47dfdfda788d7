"""Small networks over encoders: for stories (UNION) and for pairs (RUBER). Importing this file imports torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from nlgauge.errors import ModelError
from nlgauge.models.encoders.pooled_reader import Pooling
from nlgauge.models.runtime import load_folder


def load_encoder(folder: Path, device: str) -> tuple[Any, Any]:
    """The tokeniser and the encoder of a folder, without a pooling layer; every other weight is required."""
    tokenizer, encoder = load_folder(folder, "AutoModel", "an encoder", device, optional="pooler")
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None
    if encoder.config.is_encoder_decoder or getattr(encoder.config, "is_decoder", False):
        raise ModelError(f"{folder}: a generative model; expected an encoder, such as minilm")
    return tokenizer, encoder


def freeze_words(encoder: Any) -> None:
    """Freeze word embeddings: half of a small encoder's weights, most of which occur in few texts."""
    encoder.get_input_embeddings().weight.requires_grad_(False)


def pool(states: torch.Tensor, mask: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    """One vector per row from its tokens' states: their mean, or the minimum and maximum of each dimension."""
    real = mask.unsqueeze(-1).bool()
    if pooling == "mean":
        return states.masked_fill(~real, 0.0).sum(dim=1) / real.sum(dim=1).clamp(min=1)
    endless = float("inf")
    ends = [states.masked_fill(~real, endless).amin(dim=1), states.masked_fill(~real, -endless).amax(dim=1)]
    return torch.cat(ends, dim=-1)


class StoryNetwork(torch.nn.Module):
    """How real a story looks: a linear head on the mean of an encoder's last states (UNION, section 3.3).

    `reconstruct` adds a linear layer through which token states are compared with the encoder's word embeddings.
    """

    def __init__(self, encoder: Any, *, seed: int = 0, reconstruct: bool = False) -> None:
        super().__init__()
        self.encoder = encoder
        size = encoder.config.hidden_size
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.head = torch.nn.Linear(size, 1)
            self.output = torch.nn.Linear(size, size) if reconstruct else None
        self.to(encoder.device)

    def forward(self, inputs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """One logit per story, and the states of its tokens."""
        states = self.encoder(**inputs)[0]
        logits: torch.Tensor = self.head(pool(states, inputs["attention_mask"], "mean")).squeeze(-1).float()
        return logits, states

    def words(self, states: torch.Tensor) -> torch.Tensor:
        """Logits over the encoder's words for each state."""
        if self.output is None:
            raise RuntimeError("a network without an output layer")
        words: torch.Tensor = self.encoder.get_input_embeddings().weight
        logits: torch.Tensor = self.output(states) @ words.T
        return logits


class PairNetwork(torch.nn.Module):
    """How well a text fits a context: their vectors and a quadratic form of both, through a hidden layer (RUBER).

    Vectors are given, or come from an encoder that is trained, too. The form is initialised as a dot product.
    """

    def __init__(self, size: int, *, hidden: int = 128, seed: int = 0, encoder: Any = None) -> None:
        super().__init__()
        self.encoder = encoder
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.scale = torch.nn.LayerNorm(size)
            self.form = torch.nn.Parameter(torch.eye(size) / size**0.5)
            self.inner = torch.nn.Linear(2 * size + 1, hidden)
            self.outer = torch.nn.Linear(hidden, 1)
        if encoder is not None:
            self.to(encoder.device)

    def forward(self, contexts: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
        """One logit per pair of vectors."""
        one, other = self.scale(contexts), self.scale(texts)
        both = ((one @ self.form) * other).sum(dim=-1, keepdim=True)
        hidden = torch.tanh(self.inner(torch.cat([one, other, both], dim=-1)))
        logits: torch.Tensor = self.outer(hidden).squeeze(-1).float()
        return logits
