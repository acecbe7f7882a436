"""A broker's files, in Kafka's formats (docs/adr/0041-logs-on-disk.md). In the broker, only this package opens files.

data_dir/
  .lock                     locked while a broker uses the folder
  cluster.json              the cluster's id, topics, settings, users, quotas, tokens and ACLs, and which producer ids may have been used
  coordinators/             __consumer_offsets-N, __transaction_state-N, __share_group_state-N: the coordinators' records
  node-1/                   one for each node
    meta.properties         and the checkpoints of its logs
    topic-0/                segments with their indexes, producer snapshots, leader epochs
"""
