"""Records on their way to poll(): fetch requests and sessions, their responses, the fetch buffer, and decoding.

In the order of a record's way: `fetcher`, `fetch_session`, `fetch_request`, `fetch_response`, `fetch_buffer` (which bounds the memory),
`fetch_collector` and `fetch_cursor` (in the caller's context), `decode`.
"""
