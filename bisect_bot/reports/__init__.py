"""What a person or a program reads of a finished session: JSON, Markdown, the terminal, a git bisect log.

Everything here is made from a `model.Report` alone; only `files` writes.
"""
