"""The only places of the client that touch the machine: each has a transport and the objects users hold."""
