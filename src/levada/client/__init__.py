"""One cluster as a client sees it: connections, requests in flight, metadata, and the engine that drives them. Sans-IO."""
