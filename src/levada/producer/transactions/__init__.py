"""The transactions of a producer: their states, and the requests to coordinators."""
