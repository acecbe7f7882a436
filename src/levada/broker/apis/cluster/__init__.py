"""APIs about the cluster and its nodes: versions, quorum, features, log directories, client metrics."""
