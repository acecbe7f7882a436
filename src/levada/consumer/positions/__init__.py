"""The assignment and the positions of a consumer: how positions are looked up, reset, validated and committed.

Begin with `subscription_state`. `commits` sends and fetches committed offsets, `position_resetter` and `position_validator` find where to
read.
"""
