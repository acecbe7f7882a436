"""Operations that take several requests: flows, the node for each request, retries."""
