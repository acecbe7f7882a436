"""Records into batches, batches into requests, answers into deliveries: what both APIs' producers share below the API."""
