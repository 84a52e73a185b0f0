"""Faults put into the real commands at random moments: ``python tools/faults.py --faults 500 --seed 0``.

An area (searching, training, evaluating, judging, serving) prepares what its commands work on and what they give when
nothing goes wrong. It then offers kinds of faults, each a function of a random generator that puts one fault in, gives
the command again where it ended, and says what became of it.
"""
