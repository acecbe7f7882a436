"""The group coordinator: classic and consumer groups, their members, assignors, and committed offsets."""
