"""The core of a consumer: assignment, positions, fetching, and records in order. Sans-IO and clock-less.

`core` has all parts, `consumer_flows` is what poll() does in the caller's context. Packages: `fetch/`, `positions/` (and commits),
`group/`, `share/` (share groups), `acks/` (records acknowledged one by one), `scan/` (bounded reads). Arguments are checked in
`levada.api.consumer`.
"""
