"""Tests of Ctrl-C send it to commands that they start."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # The shell ignores it for what runs in the background of a script, and whatever that starts would too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
