"""What both web apps share: the guard at the door, pages and assets from the package, errors, logs, and the server.

Everything is served from memory and works without a network. Needs ``pip install bonafide[explore]``.
"""
