"""What all nodes share: the list of nodes, topics, features, and where replicas are placed."""
