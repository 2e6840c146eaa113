"""Starts the program under its own module name, by which tracebacks know whose frames are ours."""

from .program import main

main()
