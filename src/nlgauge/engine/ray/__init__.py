"""Ray clusters, pools and workers."""
