"""The transactions of a producer: their states, and the requests to coordinators.

Begin with `states`, the table of transitions, then `manager`, whose methods are the calls of the program.
"""
