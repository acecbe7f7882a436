"""`levada top`. look asks the brokers, rates and views compute tables without I/O, screen is the program on the terminal."""
