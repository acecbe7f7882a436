"""The assignment and the positions of a consumer: how positions are looked up, reset, validated and committed.

Begin with `subscription_state`. `commits` commits offsets. `committed_positions` and `position_resetter` find where to read;
`position_validator` checks whether a position is still valid.
"""
