"""A federation on this machine: sample, evaluate, decide, train, mix, record."""
