# sending.py has no C types. Compiled, a call of its method is parsed in C.
