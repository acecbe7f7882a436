"""Records on their way to poll(): fetch requests and sessions, what their responses mean, the buffer, and how records are decoded."""
