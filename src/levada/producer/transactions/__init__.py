"""The transactions of a producer: their states, and the requests to coordinators.

Begin with `states`, the table of transitions. Then read `manager`, whose flows are the transactional calls of the program.
"""
