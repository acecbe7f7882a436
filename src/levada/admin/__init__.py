"""The flows of an admin client, one module per subject; sans-IO and clock-less."""
