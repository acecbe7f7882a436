"""Transaction coordinators: transactional ids, and how their transactions end."""
