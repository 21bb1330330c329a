"""Signatures of the compiled functions, for ctypes."""

import ctypes
from ctypes import (
    POINTER,
    c_char_p,
    c_double,
    c_int,
    c_uint,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
)


__all__ = ["declare"]


#: Result and arguments of the functions in ``cpp/memory_api.cpp``, ``traffic.cpp``, ``loop.cpp``,
#: ``bench_main.cpp``, ``sdr_api.cpp``, ``board_loop.cpp``,
#: ``probe.cpp`` and ``activity.cpp``.
_FUNCTIONS = {
    "headrace_memory_new": (c_void_p, [c_void_p, c_uint64, c_uint64, c_uint]),
    "headrace_memory_delete": (None, [c_void_p]),
    "headrace_memory_set": (c_int, [c_void_p, c_char_p, c_double]),
    "headrace_memory_inject": (None, [c_void_p, c_uint64, c_uint64, c_int, c_int, c_int]),
    "headrace_memory_clear_errors": (None, [c_void_p]),
    "headrace_memory_violation": (c_char_p, [c_void_p]),
    "headrace_memory_clear_violation": (None, [c_void_p]),
    "headrace_memory_statistics": (c_char_p, [c_void_p]),
    "headrace_memory_reset_statistics": (None, [c_void_p]),
    "headrace_memory_cycles": (c_uint64, [c_void_p]),
    "headrace_traffic_reset": (None, [c_void_p]),
    "headrace_traffic_run": (c_uint64, [c_void_p, c_uint64, c_void_p, c_void_p, c_uint, c_uint,
                                        c_uint64, c_uint64, c_void_p, c_void_p]),
    "headrace_traffic_record": (None, [c_void_p, c_int]),
    "headrace_traffic_records": (POINTER(c_uint64), [c_void_p, POINTER(c_uint64)]),
    "headrace_loop_new": (c_void_p, [c_uint64, c_char_p]),
    "headrace_loop_delete": (None, [c_void_p]),
    "headrace_loop_reset": (None, [c_void_p, c_uint]),
    "headrace_loop_run": (c_int, [c_void_p, c_uint64, c_int]),
    "headrace_loop_write": (c_int, [c_void_p, c_uint32, c_uint32, POINTER(c_uint)]),
    "headrace_loop_read": (c_int, [c_void_p, c_uint32, POINTER(c_uint32), POINTER(c_uint)]),
    "headrace_sdr_new": (c_void_p, [c_void_p, c_uint64]),
    "headrace_sdr_delete": (None, [c_void_p]),
    "headrace_sdr_set": (c_int, [c_void_p, c_char_p, c_uint64]),
    "headrace_sdr_violation": (c_char_p, [c_void_p]),
    "headrace_sdr_clear_violation": (None, [c_void_p]),
    "headrace_sdr_tick": (None, [c_uint64, c_uint, c_uint, c_uint, c_uint, c_uint64, c_uint64,
                                 POINTER(c_uint64), POINTER(c_uint8)]),
    "headrace_sdr_cycles": (c_uint64, [c_void_p]),
    "headrace_sdr_statistics": (c_char_p, [c_void_p]),
    "headrace_sdr_reset_statistics": (None, [c_void_p]),
    "headrace_board_new": (c_void_p, [c_uint64, c_uint, c_char_p]),
    "headrace_board_delete": (None, [c_void_p]),
    "headrace_board_reset": (None, [c_void_p, c_uint]),
    "headrace_board_send": (None, [c_void_p, c_char_p, c_uint64]),
    "headrace_board_run": (c_int, [c_void_p, c_uint64, c_uint64]),
    "headrace_board_take": (c_uint64, [c_void_p, c_void_p, c_uint64]),
    "headrace_board_received": (c_uint64, [c_void_p]),
    "headrace_board_unsent": (c_uint64, [c_void_p]),
    "headrace_board_cycles": (c_uint64, [c_void_p]),
    "headrace_board_ready": (c_int, [c_void_p]),
    "headrace_board_memory_ready": (None, [c_void_p, c_int]),
    "headrace_bench_clock": (None, [c_uint64]),
    "headrace_probe_begin": (None, [c_uint64, POINTER(c_uint), c_uint]),
    "headrace_probe_end": (None, [c_uint64]),
    "headrace_probe_records": (POINTER(c_uint32), [c_uint64, c_uint, POINTER(c_uint64)]),
    "headrace_activity_begin": (None, [c_uint64, POINTER(c_uint), c_uint64, c_uint64]),
    "headrace_activity_end": (None, [c_uint64]),
    "headrace_activity_plan": (None, [c_uint64, c_uint, POINTER(c_uint64), c_uint64]),
    "headrace_activity_settle": (None, [c_uint64]),
    "headrace_activity_cycles": (c_uint64, [c_uint64]),
    "headrace_activity_sums": (POINTER(c_uint64), [c_uint64, POINTER(c_uint64),
                                                   POINTER(c_uint64)]),
    "headrace_activity_marks": (POINTER(c_uint64), [c_uint64, c_uint, POINTER(c_uint64),
                                                    POINTER(c_uint64), POINTER(c_uint64)]),
}


def declare(library: ctypes.CDLL) -> ctypes.CDLL:
    """Give the functions that `library` has their signatures, and return it."""
    for name, (result, arguments) in _FUNCTIONS.items():
        # A bench has the memory's functions but no compiled loop.
        if hasattr(library, name):
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    return library
