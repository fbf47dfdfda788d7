"""Zstandard compression: Python's own module from 3.14 on, its backport before that."""

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdCompressor, ZstdDecompressor, ZstdError, compress
else:
    from backports.zstd import ZstdCompressor, ZstdDecompressor, ZstdError, compress

__all__ = ["ZstdCompressor", "ZstdDecompressor", "ZstdError", "compress"]
