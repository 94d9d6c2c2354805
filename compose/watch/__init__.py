"""`perito watch`: a collection follows a folder.

In order, and again whenever something may have changed: ``folder`` (what lies there) -> ``survey`` (what has come to
rest, and what it says) -> ``plan`` (what that asks for) -> ``acting`` (doing it), with ``memory`` of what was done
before. ``loop`` goes round, ``events`` wake it, ``manifest`` tells beforehand what it would cost.
"""
