"""What takes several requests: flows, where each request goes, and when it is sent again."""
