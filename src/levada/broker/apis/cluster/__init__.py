"""APIs about the cluster and its nodes: versions, the quorum, features, log directories, the metrics of clients."""
