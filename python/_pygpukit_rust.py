"""Another name of :mod:`pygpukit.runtime`, as the 0.2 series called it."""

from pygpukit._startup import alias_runtime

alias_runtime(__name__)
