"""The only broker code that touches the machine: sockets, the real disk, the real clock, start and stop."""
