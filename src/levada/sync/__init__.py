"""The blocking API: clients whose calls wait, and the driver that runs an engine on a thread.

Begin with `driver` and `stepper`, which say what runs in which thread. The clients are lists of methods; what they do is in `levada.api`.
`sending` [c] is send(), the one call that is made for every record.
"""
