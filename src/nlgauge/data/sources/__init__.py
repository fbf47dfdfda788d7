"""Files as sources of bytes: opening, object stores, shards, chunks, parts, samples."""
