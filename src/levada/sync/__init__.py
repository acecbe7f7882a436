"""The blocking API: clients whose calls wait, and the driver that runs an engine on a thread.

Begin with `driver` and `stepper`, which say what runs in which thread. The clients are lists of methods; `levada.api` does the work.
`sending` is send(), the one call that is made for every record, so it is compiled where there is a C compiler.
"""
