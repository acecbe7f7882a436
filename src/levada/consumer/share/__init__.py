"""Share groups (KIP-932): records are acquired and acknowledged one by one.

`core` has all parts, `share_flows` is what poll() and commit() do. `member` is the membership; `fetcher`, `leaders` and `session` exchange
requests with the brokers; `acquired`, `delivered` and `acknowledging` follow each record until its acknowledgement has a result.
"""
