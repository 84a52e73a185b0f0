"""From examples to solution stores: the runner, and one function a task."""
