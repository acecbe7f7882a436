# C types of untracked.py.

cimport cython

cdef extern from *:
    """
    /* Untrack a list or struct, and the lists and structs inside it. Other objects stay tracked, because some types rely on it. */
    static int levada_visit(PyObject *thing, void *struct_type)
    {
        if (!PyObject_GC_IsTracked(thing))
            return 0;
        if (!PyList_CheckExact(thing) && (void *)Py_TYPE(Py_TYPE(thing)) != struct_type)
            return 0;
        PyObject_GC_UnTrack(thing);
        return Py_TYPE(thing)->tp_traverse(thing, levada_visit, struct_type);
    }
    #define levada_untrack(thing, struct_type) ((void)levada_visit(thing, (void *)(struct_type)))
    """
    void untrack "levada_untrack"(object thing, object struct_type)


@cython.final
cdef class Turns:
    cdef list items
    cdef Py_ssize_t left, until_next, done

    cdef void untrack_new(self)
