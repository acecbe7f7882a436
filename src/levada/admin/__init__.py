"""Conversations of an administrator with a cluster, one module per subject; sans-IO and clock-less."""
