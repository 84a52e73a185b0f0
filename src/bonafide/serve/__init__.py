"""``bonafide serve``: a trained model as a JSON API and a page to ask in.

A request brings its question and its context, or names a table that the server was started with. It is checked
(``asked.py`` and a file for each task), waits its turn (``queue.py``), is predicted together with those that came at
the same time, and what comes back is the solution, its answer, and what the alternatives would return. Nothing that a
request says is a path, and nothing that it brings is written down.
"""
