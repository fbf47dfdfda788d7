"""What slow resources make of texts, kept on disk: each distinct text is worked on once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence

from nlgauge.engine.blobs import BlobStore


def digest(text: str) -> bytes:
    """The hash under which a text is kept."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def remembered(store: str, texts: Sequence[str], make: Callable[[list[str]], Iterable[bytes]]) -> list[bytes]:
    """What `make` gives for each text; it is called with those that the store does not know, in their order."""
    blobs = BlobStore(store)
    keys = {text: digest(text) for text in texts}
    known = blobs.get_many(sorted(set(keys.values())))
    if missing := [text for text, key in keys.items() if key not in known]:
        made = {keys[text]: value for text, value in zip(missing, make(missing), strict=True)}
        blobs.put_many(made.items())
        known |= made
    return [known[keys[text]] for text in texts]
