"""What all nodes share: the list of nodes, the topics there are, features, and where replicas are placed."""
