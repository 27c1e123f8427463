"""The signal mask of threads that never run Python code. Called by the native module."""

import signal

_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}
_BLOCKED = signal.valid_signals() - _FAULTS


def block() -> "set[signal.Signals]":
    """Blocks all signals but those of faults, and returns those that were blocked before."""
    return signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)  # type: ignore[return-value]


def restore(mask: "set[signal.Signals]") -> None:
    """Sets the mask that `block` has returned."""
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
