"""The state that all nodes share: nodes, topics, features, and the assignment of replicas."""
