"""The transaction coordinator: transactional ids, and the completion of their transactions."""
