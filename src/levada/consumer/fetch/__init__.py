"""Records on their way to poll(): fetch requests and sessions, their responses, the fetch buffer, and decoding."""
