"""Operations that take several requests: flows, the node for each request, retries.

Begin with `flow_runner`. `destination` says where a request goes, `coordinator_finder` finds coordinators, `fan_out` splits an operation
among nodes, `retry` has the tables of what to do about error codes.
"""
