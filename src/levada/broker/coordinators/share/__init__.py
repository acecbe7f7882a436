"""Group coordinators of share groups (KIP-932): who is a member, and which partitions it reads."""
