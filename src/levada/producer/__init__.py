"""Records into batches, batches into requests, answers into deliveries: the producer without its face."""
