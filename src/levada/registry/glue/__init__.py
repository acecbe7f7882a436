"""AWS Glue Schema Registry: a client, and serializers and deserializers in Glue's wire format."""
