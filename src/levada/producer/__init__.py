"""The core of a producer: records become batches, batches become requests, and responses settle deliveries."""
