"""The tests; `python3 -m tests` runs all that this machine allows."""
