"""APIs about settings and quotas."""
