"""What a client knows of the cluster, and when it asks again.

Begin with `snapshot`, the immutable result, then `metadata`, what is wanted and when, and `metadata_updater`, which asks.
"""
