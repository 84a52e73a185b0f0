"""The synthetic benchmark: questions whose gold solution is known and whose spuriousness is a dial."""
