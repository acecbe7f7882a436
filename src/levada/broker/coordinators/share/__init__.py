"""The group coordinator of share groups (KIP-932): members and their assignments."""
