"""A broker's files, in Kafka's formats (docs/adr/0041-logs-on-disk.md). Of the broker, this package alone opens files.

data_dir/
  .lock                     held while a broker uses the folder
  cluster.json              the cluster's id, its topics, and which producer ids may have been given out
  coordinators/             __consumer_offsets-N and __transaction_state-N: what coordinators wrote, as Kafka writes it
  node-1/                   one for each node
    meta.properties         and the checkpoints of its logs
    topic-0/                segments with their indexes, snapshots of producers, leader epochs
"""
