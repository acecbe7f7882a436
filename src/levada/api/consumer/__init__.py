"""What KafkaConsumer of both APIs does: polls, subscriptions, loops, acknowledgements of single records, and handlers."""
