"""Below everything else: files written whole, cache, progress, processes."""
