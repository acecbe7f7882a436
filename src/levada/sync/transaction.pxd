# transaction.py has no C types. Compiled, no signal's handler runs before the first statement of a method.
