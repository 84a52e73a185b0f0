"""A local web page on a run: its solution sets, what solver and reconstructor make of them, and a place to judge."""
