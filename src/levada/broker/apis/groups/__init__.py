"""APIs of classic and consumer groups and of their offsets."""
