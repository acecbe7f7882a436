"""Records as the command line prints, filters and reads them."""
