"""Commands for those who write an app: a new project, and completion in the shell."""
