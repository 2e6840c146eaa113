"""sandbox: a process with permissions, which the kernel enforces (Landlock, seccomp and limits of resources)."""
