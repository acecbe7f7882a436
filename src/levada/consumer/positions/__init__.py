"""The assignment and the positions of a consumer: how positions are looked up, reset, validated and committed."""
